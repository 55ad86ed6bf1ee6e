"""Compiled gradients of recommenders (:class:`gossiprec.federated.base.AnalyticTerm`) and loops of coordinators."""
