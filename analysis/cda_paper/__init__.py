"""The whole study of arXiv 2306.08929: every experiment by one command, compared with the paper's numbers.

python -m analysis.cda_paper --data ../shared/data --out study/
"""
