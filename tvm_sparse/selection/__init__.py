"""How each layer is stored and computed: candidates, cost models, measuring, choosing."""
