"""Learners that scikit-learn does not weight, from weighted rows."""
