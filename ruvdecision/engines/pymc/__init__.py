"""Beliefs written in PyMC: quadrature and sampling."""
