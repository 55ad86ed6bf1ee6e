"""Compiled gradients of recommenders (:class:`gossiprec.recommenders.base.AnalyticTerm`) and loops of coordinators."""
