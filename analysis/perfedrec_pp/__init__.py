"""The study of PerFedRec++ on Yelp, beside what the paper prints, its ablations, and who gains by personal models.

python -m analysis.perfedrec_pp --data ../shared/data --out study/
"""
