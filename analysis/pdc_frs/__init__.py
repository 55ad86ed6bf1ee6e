"""The study of PDC-FRS on MovieLens-1M and Amazon Office, beside what the paper prints, and what contributed data leak.

python -m analysis.pdc_frs --data ../shared/data --out study/
"""
