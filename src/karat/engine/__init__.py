"""How a coreset is found: passes, coordinates, candidates, reducers, proof.  Knows kernels, not problems."""
