"""Every recommender of all papers on the same data, splits and seeds, in one table.

python -m analysis.all_papers --data ../shared/data --out study/
"""
