"""Who meets whom and when: graphs, views of peers, protocols and the discrete-event engine."""
