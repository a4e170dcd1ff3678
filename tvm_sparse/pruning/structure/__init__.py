"""Which layers of a network share channels, and where its depthwise separable blocks are."""
