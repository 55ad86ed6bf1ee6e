"""The study of PDC-FRS on MovieLens-1M and Amazon Office, compared with the paper, and the leakage of contributions.

python -m analysis.pdc_frs --data ../shared/data --out study/
"""
