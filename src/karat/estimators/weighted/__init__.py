"""Learners with sample weights, for which scikit-learn's versions take none or use them in part."""
