"""Parts shared by studies of papers: numbers over seeds, verdicts, claims, pages, and the command."""
