"""The tape of events, the programs of tasks, and the planner that turns one into the other."""
