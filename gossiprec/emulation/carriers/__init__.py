"""Carriers, one for each way other than the plain one (:mod:`gossiprec.emulation.assembly.carrier`)."""
