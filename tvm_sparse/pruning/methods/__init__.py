"""The pruning methods: each turns scores of a model's weights into masks."""
