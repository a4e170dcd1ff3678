from benchmarks.papers import deprune_pages, deprune_speed
from benchmarks.papers.deprune_pages import VARIANTS
from tests import zoo


def test_depthwise_layers_of_a_published_network():
    layers = deprune_speed.depthwise_layers(zoo.torchvision_model("mobilenet_v3_small"))
    assert len(layers) == 11
    names = [case.name for case in layers.values()]
    assert names[0] == "depthwise 3x3/2 112x112, 16"
    assert names[3] == "depthwise 5x5/2 28x28, 96"
    assert names[-1] == "depthwise 5x5 7x7, 576"


def times(us):
    return {"x": {"median_us": us}}


def refactored(us):
    return {"whole": {"median_us": us}, "products": {"median_us": us / 2}}


def content():
    pruned = dict.fromkeys(VARIANTS, times(40.0))
    layer = {
        "layer": "a",
        "dr_dense": refactored(900.0),
        "ours_dense": times(50.0),
        "libraries_dense": times(75.0),
        "dr": dict.fromkeys(VARIANTS, refactored(300.0)),
    }
    slower = dict.fromkeys(VARIANTS, times(60.0))
    whole = {"openvino": 2000.0, "unpruned": 1000.0, "50 %": 800.0, **dict.fromkeys(VARIANTS, 500)}
    sizes = {"activations": 4e6, "weights": 8e6}
    return {
        "networks": {
            "mobilenet_v2": {
                "layers": [{**layer, "ours": pruned}, {**layer, "ours": slower}],
                "whole": {name: {"median_us": us} for name, us in whole.items()},
                "memory": {name: sizes for name in ("unpruned", "50 %", *VARIANTS)},
            }
        }
    }


def test_layers_that_pruning_slows_down_stay_dense():
    rows = content()["networks"]["mobilenet_v2"]["layers"]
    assert [deprune_pages.compiled(row, "DEPrune-B") for row in rows] == [40, 50]


def test_page_has_all_three_baselines():
    page = deprune_pages.markdown(content())
    assert "| unpruned | 1800 |  | 100 | 18.00x |  | 1.50x |  |" in page
    assert "| DEPrune-BH | 600 | 3.00x | 90 | 20.00x | 1.11x | 1.67x | 3.52x |" in page
    assert "12 times the time of the best library (6 times without im2col)" in page
    assert "the pruned kernel is faster in 1 of 2 layers" in page
    # 1000 us with depthwise layers of 100 us replaced by DR's 1800 us.
    assert "| unpruned, ours with DR layers (a sum) | 2.70 |" in page
    assert "| DEPrune-BH, ours | 0.50 | 4.00x | 2.00x | 5.40x (paper: 2.48x) |" in page
    assert "Table 9 reports 7.22 and 3.63 MB" in page
    assert "3.00x over DR (paper 3.52x), but 1.11x" in deprune_pages.finding(content())
