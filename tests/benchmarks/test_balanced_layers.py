from benchmarks.papers import balanced_layers


def test_layers_are_those_of_vgg16():
    layers = balanced_layers.NETWORKS["VGG-16"].layers
    assert sum(count for _, count in layers.values()) == 16
    weights = sum(
        count * case.contraction.matrix_shape[0] * case.contraction.matrix_shape[1]
        for case, count in layers.values()
    )
    assert weights == 138_344_128  # without biases
    assert layers["conv3_2 to 3"][1] == 2
    assert layers["conv5_1 to 3"][1] == 3


def row(layer, count, dense, **ours):
    def times(us):
        return {"x": {"median_us": us}}

    return {
        "network": "LSTM-PTB",
        "layer": layer,
        "case": "linear",
        "count": count,
        "sparsity": 0.8125,
        "libraries_dense": times(dense),
        "ours_dense": times(dense),
        "ours": {pattern: times(us) for pattern, us in ours.items()},
    }


def test_layers_without_a_pattern_count_as_dense():
    sparse = {"balanced": 10.0, "block": 5.0, "unstructured": 40.0}
    rows = [row("a", 2, 30.0, **sparse), row("b", 1, 8.0)]
    assert balanced_layers.total(rows, "library") == 68
    assert balanced_layers.total(rows, "balanced") == 28
    page = balanced_layers.markdown({"rows": rows})
    assert "| a (x2) | linear | 30 (x) | 30 | 10 (3.00x) | 5 (6.00x) | 40 (0.75x) |" in page
    assert "Balanced over dense: 2.43x here, 2.45x in the paper" in page
