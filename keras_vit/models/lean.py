"""A model that computes of its last block what is read of it.

B batch, N tokens, D width.
"""

import keras

from keras_vit.layers import EncoderBlock, LayerNorm, TokenPooling, reading_first_token


@keras.saving.register_keras_serializable("keras_vit")
class LeanModel(keras.Model):
    """A functional model, whose last block computes its first token alone where nothing else of it is read.

    Of a classifier on the class token (section 3.1, equation 4) the last block's other tokens reach nothing but their
    keys and values: no query, no MLP, five sixths of a block. The answers are those of a `keras.Model` of the same
    tensors but for rounding; layers keep the outputs that they have there, so that models made of these compute them.

    Args:
        inputs, outputs, name: as of a functional `keras.Model`.
    """

    def call(self, inputs, training=None, mask=None):
        with reading_first_token(block_read_at_first_token(self)):
            return super().call(inputs, training=training, mask=mask)


def block_read_at_first_token(model: keras.Model) -> EncoderBlock | None:
    """The block of a functional model of which nothing but the first token is read, or None."""
    nodes = [node for nodes in model._nodes_by_depth.values() for node in nodes]
    reads = [id(tensor) for node in nodes for tensor in node.input_tensors] + [id(x) for x in model.outputs]
    for pooling in (node for node in nodes if type(node.operation) is TokenPooling):
        tokens = pooling.input_tensors[0]
        while reads.count(id(tokens)) == 1:
            layer, index, _ = tokens._keras_history
            if isinstance(layer, EncoderBlock):
                again = sum(node.operation is layer for node in nodes) > 1
                return None if again or not layer.can_put_out_first_token else layer
            if not isinstance(layer, LayerNorm):
                break
            tokens = layer._inbound_nodes[index].input_tensors[0]
    return None
