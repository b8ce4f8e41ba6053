"""`keras-vit check`: what needs care in a folder of images, and an exit status that says so."""

import json
import shutil

import numpy as np
import pytest
from PIL import Image
from support import needs_tensorflow

from keras_vit import cli
from keras_vit.data import check

pytestmark = needs_tensorflow
RNG = np.random.default_rng(0)


def picture(path, mode="RGB", size=(48, 40), **options):
    pixels = RNG.integers(0, 256, (size[1], size[0], 3), "uint8")
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).convert(mode).save(path, **options)
    return path


@pytest.fixture
def clean(tmp_path):
    """Two classes in two splits."""
    for split, count in (("train", check.FEW), ("test", 2)):
        for label in ("cat", "dog"):
            for i in range(count):
                picture(tmp_path / "photos" / split / label / f"{i}.png")
    return tmp_path / "photos"


def test_a_folder_in_order_needs_no_care(clean, capsys):
    assert cli.main(["check", str(clean)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{clean}: 24 files of 2 classes (train 20, test 4)",
        "nothing needs care",
    ]


def test_all_that_needs_care_is_listed_and_said_by_the_exit_status(clean, capsys):
    train = clean / "train"
    (train / "cat" / "0.png").write_bytes((train / "cat" / "0.png").read_bytes()[:200])
    (train / "cat" / "1.png").write_bytes(b"")
    (train / "cat" / "2.png").write_text("<html>Not found</html>")
    shutil.copy(train / "dog" / "0.png", clean / "test" / "dog" / "copy.png")
    shutil.copy(train / "dog" / "1.png", train / "cat" / "label.png")
    shutil.copy(train / "dog" / "2.png", train / "dog" / "again.png")
    (train / "emu").mkdir()
    exif = Image.Exif()
    exif[check.ORIENTATION] = 6
    odd = {
        "turned by its EXIF orientation": picture(train / "dog" / "a.jpg", exif=exif),
        "JPEG in a file named .png": picture(train / "dog" / "b.png", format="JPEG"),
        "grey": picture(train / "dog" / "c.png", "L"),
        "CMYK": picture(train / "dog" / "d.jpg", "CMYK"),
        "a side shorter than 32 pixels": picture(train / "dog" / "e.png", size=(40, 31)),
        "more than 4 times as long as wide": picture(train / "dog" / "f.png", size=(170, 40)),
    }
    frames = [Image.fromarray(np.full((40, 40, 3), shade, "uint8")) for shade in (0, 200)]
    odd["animated: the first picture is used"] = train / "dog" / "g.gif"
    frames[0].save(train / "dog" / "g.gif", save_all=True, append_images=frames[1:])
    assert cli.main(["check", str(clean), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert {row["file"] for row in found["broken"]} == {str(train / "cat" / f"{i}.png") for i in range(3)}
    reasons = [row["reason"] for row in found["broken"]]
    assert (
        reasons[0].startswith("PNG that is damaged (Invalid PNG")
        and "\n" not in reasons[0]
        and reasons[1:] == ["the file is empty", "no image"]
    )
    across = [
        [str(train / "cat" / "label.png"), str(train / "dog" / "1.png")],
        [str(train / "dog" / "0.png"), str(clean / "test" / "dog" / "copy.png")],
    ]
    assert sorted(map(sorted, found["duplicates_across"])) == sorted(map(sorted, across))
    assert found["duplicates_within"] == [[str(train / "dog" / "2.png"), str(train / "dog" / "again.png")]]
    assert {"split": "train", "class": "emu"} in found["empty_classes"]
    assert found["tiny_classes"] == [{"class": "cat", "files": 8}] and found["needs_care"] is True
    for oddity, path in odd.items():
        assert str(path) in found["odd"][oddity], oddity
    assert found["splits"]["train"] == {"cat": 8, "dog": 18, "emu": 0}
    assert cli.main(["check", str(clean)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "broken: 3" in lines and lines[-1] == "something needs care"
    assert f"  {train / 'dog' / '2.png'} = {train / 'dog' / 'again.png'}" in lines


def test_a_folder_without_splits_is_checked_as_training_splits_it(tmp_path, capsys):
    for label in ("cat", "dog"):
        for i in range(15):
            picture(tmp_path / label / f"{i}.png")
    assert cli.main(["check", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["splits"] == {
        "train": {"cat": 12, "dog": 12},
        "test": {"cat": 3, "dog": 3},
    }


def test_a_folder_that_is_none_is_a_mistake(tmp_path, capsys):
    assert cli.main(["check", str(tmp_path / "absent")]) == 2
    assert capsys.readouterr().err.startswith("keras-vit check: directory expected a folder of images")
