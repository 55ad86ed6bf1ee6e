"""The whole study of arXiv 2306.08929: every experiment run and resumed by one command, beside what the paper prints.

python -m analysis.cda_paper --data ../shared/data --out study/
"""
