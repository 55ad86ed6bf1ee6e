"""What is found in a run: utility, accuracy of attacks, privacy, positions."""
