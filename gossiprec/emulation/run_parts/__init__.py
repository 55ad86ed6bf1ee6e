"""Run parts, one file each: mechanisms that look at a run at its reports (:mod:`gossiprec.emulation.run.run_part`)."""
