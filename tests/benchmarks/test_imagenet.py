import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from benchmarks.papers.imagenet import DEVIATION, MEAN, load_imagenet
from tvm_sparse.errors import InputError

Image = pytest.importorskip("PIL.Image")


def write(path, pixels):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, quality=95)


def noise(height, width, seed=0):
    small = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    return np.asarray(Image.fromarray(small).resize((width, height), Image.Resampling.BILINEAR))


@pytest.fixture
def folder(tmp_path):
    for number, name in enumerate(("n01440764", "n01443537")):
        for index in range(2):
            write(tmp_path / "train" / name / f"{name}_{index}.JPEG", noise(300, 400, number))
        write(tmp_path / "val" / name / f"ILSVRC2012_val_{number:08}.JPEG", noise(500, 375, number))
    (tmp_path / "train" / "n01440764" / "readme.txt").write_text("no image")
    return tmp_path


def test_labels_follow_the_names_of_the_classes(folder):
    data = load_imagenet(folder)
    assert data.classes == ("n01440764", "n01443537")
    assert [label for _, label in data.train] == [0, 0, 1, 1]
    images, labels = next(iter(DataLoader(data.val, batch_size=2)))
    assert images.shape == (2, 3, 224, 224)
    assert images.dtype == torch.float32
    assert labels.tolist() == [0, 1]


def test_validation_takes_the_middle(tmp_path):
    # The middle 7/8 of the short side of a 256 x 320 image: 224 columns from 48, rows from 16.
    for part in ("train", "val"):
        pixels = np.zeros((256, 320, 3), np.uint8)
        pixels[16:240, 48:272] = 255
        write(tmp_path / part / "a" / "0.png", pixels)
    image, _ = load_imagenet(tmp_path).val[0]
    white = torch.from_numpy((1 - MEAN) / DEVIATION)
    torch.testing.assert_close(image, white[:, None, None].expand(3, 224, 224))


def test_training_images_differ_by_epoch_only(folder):
    data = load_imagenet(folder).train
    first, again = data[0][0], data[0][0]
    data.set_epoch(1)
    assert torch.equal(first, again)
    assert not torch.equal(first, data[0][0])


def test_grey_images_have_three_channels(folder):
    path = folder / "val" / "n01440764" / "ILSVRC2012_val_00000000.JPEG"
    Image.fromarray(noise(64, 64)).convert("L").save(path)
    image, _ = load_imagenet(folder).val[0]
    assert image.shape == (3, 224, 224)


def test_mistakes_are_named(folder, tmp_path):
    with pytest.raises(InputError, match="train: is missing"):
        load_imagenet(tmp_path / "elsewhere")
    flat = tmp_path / "flat"
    (flat / "train" / "a").mkdir(parents=True)
    (flat / "val").mkdir()
    with pytest.raises(InputError, match=r"holds no class folders.*sort validation images"):
        load_imagenet(flat)
    (flat / "val" / "a").mkdir()
    with pytest.raises(InputError, match="holds no images"):
        load_imagenet(flat)
    (flat / "val" / "b").mkdir()
    with pytest.raises(InputError, match="is no class of train"):
        load_imagenet(flat)
    (folder / "val" / "n01440764" / "ILSVRC2012_val_00000000.JPEG").write_bytes(b"damaged")
    with pytest.raises(InputError, match="is no image"):
        load_imagenet(folder).val[0]
