"""The study of PerFedRec++ on Yelp, compared with the paper: ablations, and gains from personal models.

python -m analysis.perfedrec_pp --data ../shared/data --out study/
"""
