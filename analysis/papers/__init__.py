"""What studies of papers share: numbers over seeds, verdicts, claims, pages, and the command around them."""
