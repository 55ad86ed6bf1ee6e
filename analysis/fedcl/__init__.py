"""The study of FedCL on Amazon Beauty and MovieLens-1M, beside what the paper prints, and what told vectors give away.

python -m analysis.fedcl --data ../shared/data --out study/
"""
