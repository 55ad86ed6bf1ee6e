"""The study of FedCL on Amazon Beauty and MovieLens-1M, compared with the paper, and the leakage of user uploads.

python -m analysis.fedcl --data ../shared/data --out study/
"""
