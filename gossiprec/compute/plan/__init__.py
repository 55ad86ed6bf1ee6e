"""What is computed, and in which order: tape, programs, and the planner between them."""
