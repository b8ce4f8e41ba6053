"""A run's folder knows which recipe began it."""

import json
from dataclasses import replace

import pytest
from support import needs_tensorflow

from keras_vit.train.recipe import Data, Model, Recipe
from keras_vit.train.recipe.file import to_json
from keras_vit.train.workdir import find_summary

pytestmark = needs_tensorflow


@pytest.mark.parametrize("source", ["folder", "digits"])
def test_a_run_of_a_version_that_did_not_turn_photographs_goes_on_without_turning(source, tmp_path):
    recipe = Recipe("old", Model("ViT_Ti16"), Data(source), epochs=1)
    written = json.loads(to_json(recipe))
    del written["data"]["exif"]
    (tmp_path / "recipe.json").write_text(json.dumps(written))
    if source == "digits":  # which has no files
        assert find_summary(tmp_path, recipe) is None
    else:
        with pytest.raises(ValueError, match="differs in data.exif; --set data.exif=false goes on with it"):
            find_summary(tmp_path, recipe)
        assert find_summary(tmp_path, replace(recipe, data=replace(recipe.data, exif=False))) is None
