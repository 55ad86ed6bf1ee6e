"""RecBole on the sequences and weights that our side wrote: its data set, models and trainer."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import torch
from worker import serve, timed

LENGTH, SAME_LENGTH = 50, 6
SIZES: dict[str, dict[str, Any]] = {
    "GRU4Rec": {
        "embedding_size": 64, "hidden_size": 128, "num_layers": 1, "dropout_prob": 0.3, "train_batch_size": 2048,
    },
    "BERT4Rec": {
        "hidden_size": 64, "inner_size": 256, "n_layers": 2, "n_heads": 2, "mask_ratio": 0.2,
        "hidden_dropout_prob": 0.2, "attn_dropout_prob": 0.2, "train_batch_size": 256,
    },
}  # fmt: skip
SOME = 10
"""Batches of BERT4Rec per turn; an epoch has fourteen times as many."""


class Theirs:
    """A model of RecBole and its trainer."""

    def prepare(self, folder: str, model: str, **_: Any) -> None:
        """Write the file of interactions that RecBole reads, and make its model."""
        from recbole.config import Config
        from recbole.data import create_dataset, data_preparation
        from recbole.utils import get_model, get_trainer, init_seed

        self._folder = Path(folder)
        self._name = {"gru4rec": "GRU4Rec", "bert4rec": "BERT4Rec"}[model]
        lines = ["user_id:token\titem_id:token\ttimestamp:float"]
        for line in (self._folder / "sequences.txt").read_text().splitlines():
            user, *items = line.split()
            lines += [f"{user}\t{item}\t{time}" for time, item in enumerate(items)]
        (self._folder / "seq").mkdir(exist_ok=True)
        (self._folder / "seq" / "seq.inter").write_text("\n".join(lines) + "\n")
        settings = {
            "data_path": folder, "load_col": {"inter": ["user_id", "item_id", "timestamp"]},
            "MAX_ITEM_LIST_LENGTH": LENGTH, "train_neg_sample_args": None, "loss_type": "CE", "use_gpu": False,
            "eval_args": {"split": {"LS": "valid_and_test"}, "order": "TO", "mode": "full"},
            "learning_rate": 0.001, "show_progress": False, "seed": 1, "checkpoint_dir": folder,
        }  # fmt: skip
        config = Config(model=self._name, dataset="seq", config_dict=settings | SIZES[self._name])
        init_seed(1, True)
        self._dataset = create_dataset(config)
        self._train, _, _ = data_preparation(config, self._dataset)
        self._model = get_model(self._name)(config, self._train._dataset)
        self._trainer = get_trainer(config["MODEL_TYPE"], self._name)(config, self._model)
        self._config, self._epoch = config, 0

    def check(self) -> dict[str, Any]:
        """Return the loss of our weights without dropout, and sizes."""
        kept = {name: part.clone() for name, part in self._model.state_dict().items()}
        self._model.eval()
        with torch.no_grad():
            loss = self._gru_loss() if self._name == "GRU4Rec" else self._bert_loss()
        self._model.load_state_dict(kept)
        return {
            "users": self._dataset.user_num - 1,
            "items": self._dataset.item_num - 1,
            "items_to_predict": len(self._train._dataset),
            f"first_loss_of_{self._name.lower()}": loss,
        }

    def measure(self) -> dict[str, float]:
        """Return the seconds of an epoch, or per 1,000 sequences."""
        whole = self._name == "GRU4Rec"
        some = self._train if whole else itertools.islice(iter(self._train), SOME)
        spent = timed(lambda: self._trainer._train_epoch(some, self._epoch))
        self._epoch += 1
        share = 1.0 if whole else 1000 / SOME / SIZES["BERT4Rec"]["train_batch_size"]
        return {name: share * value for name, value in spent.items()}

    def _weights(self) -> dict[str, torch.Tensor]:
        """Return our weights; the rows of items are in RecBole's order, after a row of zeros."""
        work = np.load(self._folder / "weights.npz")
        found = {name: torch.from_numpy(work[name]) for name in work.files if name != "item_names"}
        ours = {name: number for number, name in enumerate(work["item_names"].tolist())}
        tokens = self._dataset.field2id_token["item_id"][1:].tolist()
        rows = found["items"][[ours[token] for token in tokens]]
        return found | {"items": torch.cat([torch.zeros(1, rows.shape[1]), rows])}

    def _gru_loss(self) -> float:
        weights, model = self._weights(), self._model
        model.item_embedding.weight.copy_(weights["items"])
        model.gru_layers.weight_ih_l0.copy_(weights["input_weights"])
        model.gru_layers.weight_hh_l0.copy_(weights["recurrent_weights"])
        model.dense.weight.copy_(weights["dense_weights"])
        model.dense.bias.copy_(weights["dense_biases"])
        losses = [(float(model.calculate_loss(batch)), len(batch)) for batch in self._train]
        return sum(loss * n for loss, n in losses) / sum(n for _, n in losses)

    def _bert_loss(self) -> float:
        self._take_bert(self._weights())
        feature, config = self._train._dataset.inter_feat, self._config
        lists, lengths = feature[self._model.ITEM_SEQ], feature[self._model.ITEM_SEQ_LEN]
        users, last = feature["user_id"], feature["item_id"]
        longer = users[lengths >= SAME_LENGTH]
        chosen = torch.nonzero((lengths == SAME_LENGTH - 1) & ~torch.isin(users, longer))[:, 0]
        known = lists[chosen].clone()
        known[:, SAME_LENGTH - 1] = self._model.mask_token
        gaps = torch.zeros(len(chosen), self._model.mask_item_length, dtype=torch.long)
        wanted = gaps.clone()
        gaps[:, -1], wanted[:, -1] = SAME_LENGTH - 1, last[chosen]
        names = (config["MASK_ITEM_SEQ"], config["POS_ITEMS"], config["NEG_ITEMS"], config["MASK_INDEX"])
        return float(self._model.calculate_loss(dict(zip(names, (known, wanted, wanted, gaps), strict=True))))

    def _take_bert(self, weights: dict[str, torch.Tensor]) -> None:
        """Take our weights; our positions count from the end."""
        model, d = self._model, 64
        model.item_embedding.weight.copy_(torch.cat([weights["items"], weights["gap"][None]]))
        model.position_embedding.weight[:SAME_LENGTH] = weights["positions"][:SAME_LENGTH].flip(0)
        pairs = [(model.LayerNorm, "input"), (model.output_ffn, "output"), (model.output_ln, "output")]
        for layer, name in pairs:
            scaled = isinstance(layer, torch.nn.LayerNorm)
            layer.weight.copy_(weights[f"{name}_{'scales' if scaled else 'weights'}"])
            layer.bias.copy_(weights[f"{name}_{'offsets' if scaled else 'biases'}"])
        for k, block in enumerate(model.trm_encoder.layer):
            attention, forward = block.multi_head_attention, block.feed_forward
            for part, linear in enumerate((attention.query, attention.key, attention.value)):
                linear.weight.copy_(weights["attention_weights"][k, part * d : (part + 1) * d])
                linear.bias.copy_(weights["attention_biases"][k, part * d : (part + 1) * d])
            for linear, name in (
                (attention.dense, "joining"),
                (forward.dense_1, "inner"),
                (forward.dense_2, "outer"),
            ):
                linear.weight.copy_(weights[f"{name}_weights"][k])
                linear.bias.copy_(weights[f"{name}_biases"][k])
            for norm, name in ((attention.LayerNorm, "joining"), (forward.LayerNorm, "outer")):
                norm.weight.copy_(weights[f"{name}_scales"][k])
                norm.bias.copy_(weights[f"{name}_offsets"][k])


if __name__ == "__main__":
    serve(Theirs())
