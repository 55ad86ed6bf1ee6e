"""What recommenders add to a gradient, compiled (:class:`gossiprec.recommenders.base.AnalyticTerm`)."""
