import builtins

import numpy as np
import pytest
from matplotlib.image import imread
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors
from support import randomise

import keras_vit
from keras_vit import analysis
from keras_vit.analysis.principal_components import principal_components

TINY = keras_vit.Variant("Tiny", width=8, depth=2, mlp_dim=12, num_heads=2, patch_size=4)
BLOCKS = ("encoder_block_00", "encoder_block_01")
RNG = np.random.default_rng(0)


def tiny(shape=(8, 12, 1), seed=0, **options):
    return randomise(keras_vit.build(TINY, input_shape=shape, classes=3, **options), seed)


def pictures(count=6, shape=(8, 12, 1)):
    return RNG.uniform(-1, 1, (count, *shape)).astype("float32")


def hsic_cka(x, y):
    """Kornblith et al., equation 3 and section 3: HSIC with linear kernels, centred by H = I - 1/n from both sides."""
    n = len(x)
    h = np.eye(n) - 1 / n

    def hsic(k, other):
        return np.trace(k @ h @ other @ h) / (n - 1) ** 2

    k, other = x @ x.T, y @ y.T
    return hsic(k, other) / np.sqrt(hsic(k, k) * hsic(other, other))


@pytest.mark.parametrize("shapes", [((30, 4), (30, 7)), ((5, 40), (5, 9))])
def test_linear_cka_equals_the_papers_hsic_and_its_feature_form(shapes):
    x, y = (RNG.standard_normal(shape) for shape in shapes)
    y[:, :3] += x[:, :3]
    found = analysis.linear_cka(x, y)
    assert found == pytest.approx(hsic_cka(x, y), rel=1e-10)
    x, y = x - x.mean(0), y - y.mean(0)
    feature = np.linalg.norm(y.T @ x) ** 2 / np.linalg.norm(x.T @ x) / np.linalg.norm(y.T @ y)
    assert found == pytest.approx(feature, rel=1e-10)


def test_linear_cka_by_hand():
    x = RNG.standard_normal((12, 5))
    turned = 3 * x @ np.linalg.qr(RNG.standard_normal((5, 5)))[0] + 7
    assert analysis.linear_cka(x, turned) == pytest.approx(1, rel=1e-12)  # a rotation, a scale, a shift
    two = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    assert analysis.linear_cka(two[:, :1], two[:, 1:]) == pytest.approx(0, abs=1e-12)
    # One of two equal and orthogonal directions is shared: |x'y|^2 / (|xx'| |yy'|) = 1 / (1 * sqrt 2).
    assert analysis.linear_cka(two[:, :1], two) == pytest.approx(1 / np.sqrt(2), rel=1e-12)
    assert analysis.linear_cka(x.reshape(12, 1, 5), x) == pytest.approx(1, rel=1e-12)
    with pytest.raises(ValueError, match=r"same N > 1 examples, received \(12, 5\) and \(4, 2\)"):
        analysis.linear_cka(x, two)
    with pytest.raises(ValueError, match="features that vary over the examples"):
        analysis.linear_cka(x, np.ones((12, 2)))


def test_layers_are_compared_by_their_tokens():
    model, other, images = tiny(), tiny(seed=1, pooling="gap"), pictures()
    found, rows, columns = analysis.layer_similarity(model, images, other, batch_size=4)
    assert (
        rows == columns == ("embedding", "position_embedding", "encoder_block_00", "encoder_block_01", "encoder_norm")
    )
    ours = np.asarray(keras_vit.feature_model(model, ["encoder_block_01"])(images))[:, 1:].reshape(6, -1)
    theirs = np.asarray(keras_vit.feature_model(other, ["encoder_norm"])(images)).reshape(6, -1)
    assert found[3, 4] == pytest.approx(hsic_cka(ours.astype("float64"), theirs.astype("float64")), rel=1e-6)
    own, _, _ = analysis.layer_similarity(model, images)
    np.testing.assert_allclose(np.diag(own), 1, rtol=1e-9)
    np.testing.assert_allclose(own, own.T, rtol=1e-9)
    assert found[0, 0] < 1
    with pytest.raises(ValueError, match="images expected two or more to compare layers, received 1"):
        analysis.layer_similarity(model, images[:1])


def test_nearest_equals_scikit_learns():
    features, queries = RNG.standard_normal((40, 7)), RNG.standard_normal((9, 7))
    theirs = NearestNeighbors(n_neighbors=5, metric="cosine").fit(features)
    apart, expected = theirs.kneighbors(queries)
    found, similarity = analysis.nearest(features, queries)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(similarity, 1 - apart, atol=1e-9)
    among, _ = analysis.nearest(features, k=3)
    np.testing.assert_array_equal(among, theirs.kneighbors(n_neighbors=3)[1])
    assert analysis.nearest(features[:3])[0].shape == (3, 2)
    with pytest.raises(ValueError, match="k expected a positive int, received 0"):
        analysis.nearest(features, k=0)
    with pytest.raises(ValueError, match="queries expected rows like features"):
        analysis.nearest(features, queries[:, :3])


def test_features_are_the_input_of_the_head():
    model, images = tiny(representation_size=5, classifier_activation=None), pictures()
    features = analysis.features_of(model, images, batch_size=4)
    kernel, bias = (np.asarray(v) for v in model.get_layer("head").weights)
    np.testing.assert_allclose(features @ kernel + bias, model.predict(images, verbose=0), atol=1e-5)
    assert analysis.features_of(keras_vit.build(TINY, input_shape=(8, 12, 1), include_top=False), images).shape == (
        6,
        8,
    )


def test_principal_components_equal_scikit_learns():
    rows = RNG.standard_normal((50, 6)) * [5, 4, 3, 2, 1, 0.5] + 3
    found, shares = principal_components(rows, 3)
    theirs = PCA(3).fit(rows)
    expected = theirs.transform(rows)
    expected *= np.sign((expected * found).sum(axis=0))
    np.testing.assert_allclose(found, expected, atol=1e-8)
    np.testing.assert_allclose(shares, theirs.explained_variance_ratio_, rtol=1e-9)
    narrow, shares = principal_components(rows[:, :2], 3)
    assert narrow.shape == (50, 3) and not narrow[:, 2].any() and shares[2] == 0
    wide, shares = principal_components(rows[:4], 3)  # fewer rows than columns
    theirs = PCA(3).fit(rows[:4])
    expected = theirs.transform(rows[:4])
    np.testing.assert_allclose(wide, expected * np.sign((expected * wide).sum(axis=0)), atol=1e-8)
    np.testing.assert_allclose(shares, theirs.explained_variance_ratio_, rtol=1e-9)
    assert principal_components(np.ones((2, 400_000), "float32"), 2)[0].shape == (
        2,
        2,
    )  # D x D values do not fit in memory


@pytest.mark.broad
@pytest.mark.parametrize("method", ["tsne", "pca"])
def test_separate_clusters_stay_separate_on_the_plane(method):
    middles = 8 * np.eye(3, 16)
    features = np.concatenate([middle + 0.3 * RNG.standard_normal((12, 16)) for middle in middles])
    plane = analysis.project(features, method)
    assert plane.shape == (36, 2)
    nearest = NearestNeighbors(n_neighbors=6).fit(plane).kneighbors(return_distance=False) // 12
    assert (nearest == np.arange(36)[:, None] // 12).all()


def test_the_error_of_a_projection_names_the_missing_package(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.split(".")[0] in ("umap", "sklearn"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match="method='umap' needs umap-learn"):
        analysis.project(np.ones((6, 3)), "umap")
    with pytest.raises(ImportError, match="method='tsne' needs scikit-learn"):
        analysis.project(np.ones((6, 3)))
    with pytest.raises(ValueError, match="method expected one of .* received 'som'"):
        analysis.project(np.ones((6, 3)), "som")
    with pytest.raises(ValueError, match=r"features expected five rows .* received shape \(4, 3\)"):
        analysis.project(np.ones((4, 3)))


def test_pictures_of_similarities_show_their_arguments(tmp_path):
    images = pictures(7, (8, 8, 1))
    similarity = np.linspace(0.1, 1, 12).reshape(3, 4)
    figure = analysis.plot_similarity(similarity, list("abc"), list("wxyz"), tmp_path / "s.png", names=("one", "two"))
    axes = figure.axes[0]
    np.testing.assert_array_equal(axes.images[0].get_array(), similarity)
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("one", "two")
    assert [text.get_text() for text in axes.get_xticklabels()] == list("wxyz")

    found, cosine = analysis.nearest(images.reshape(7, -1), k=3)
    names = [f"n{i}" for i in range(7)]
    figure = analysis.plot_neighbours(images, found[:2], tmp_path / "n.png", similarities=cosine[:2], names=names)
    shown = figure.axes[1].images[0].get_array()  # the first neighbour of the first image
    np.testing.assert_allclose(shown[..., 0], (images[found[0, 0], ..., 0] + 1) / 2, atol=1e-6)
    assert figure.axes[1].get_xlabel() == f"n{found[0, 0]}, {cosine[0, 0]:.2f}"

    plane = RNG.standard_normal((7, 2))
    figure = analysis.plot_projection(plane, images, tmp_path / "p.png", labels=list("aabbaab"))
    np.testing.assert_allclose(figure.axes[0].collections[0].get_offsets(), plane)
    assert {text.get_text() for text in figure.axes[0].texts} == {"a", "b"}
    assert all(imread(tmp_path / f"{name}.png")[..., :3].std() > 0.03 for name in "snp")
    with pytest.raises(ValueError, match=r"similarity expected shape \(2, 4\)"):
        analysis.plot_similarity(similarity, list("ab"), list("wxyz"), tmp_path / "x.png")
    with pytest.raises(ValueError, match="indices expected"):
        analysis.plot_neighbours(images, found + 7, tmp_path / "x.png")
    with pytest.raises(ValueError, match=r"plane expected shape \(7, 2\)"):
        analysis.plot_projection(plane[:3], images, tmp_path / "x.png")
