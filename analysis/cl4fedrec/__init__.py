"""The study of CL4FedRec and rCL4FedRec (arXiv 2403.20107) on MovieLens-1M, compared with the paper's numbers.

python -m analysis.cl4fedrec --data ../shared/data --out study/
"""
