"""What a coreset must preserve."""

from karat.problems.base import Problem
from karat.problems.custom import Kernel
from karat.problems.moments import Mean, Moments, TensorContraction
from karat.problems.regression import LeastSquares, LpRegression, Ridge
from karat.problems.transformed import Transformed

__all__ = ["Kernel", "LeastSquares", "LpRegression", "Mean", "Moments", "Problem", "Ridge", "TensorContraction", "Transformed"]
