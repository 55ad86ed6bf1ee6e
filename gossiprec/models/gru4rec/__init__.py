"""GRU4Rec: a recurrent network over what a user has taken, one item after the other."""
