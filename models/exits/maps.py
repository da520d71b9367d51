"""Take an output that is a map as the answer of the last exit, so that earlier exits can stand before it."""

from __future__ import annotations

from dataclasses import replace

from ..errors import NetworkError
from ..graph.checks import MapCheck, MapTask
from ..graph.network import Exit, Network
from ..graph.outputs import Output
from .heads import unknown_name

_ENDS = {MapTask.LANDMARKS: ("", "sigmoid"), MapTask.SEGMENTATION: ("", "softmax", "log_softmax")}


def with_maps(
    network: Network,
    task: MapTask,
    output: str | None = None,
    *,
    count: float = 0.5,
    top: int = 5,
    every: int = 1,
) -> Network:
    """Return a network without classes whose last exit answers with one of its outputs, a map.

    `output` names it; None: the only one. Its activation (a sigmoid of heat maps, a softmax of labels) is
    the check's and the answer's from here on. `count`, `top` and `every` are those of `MapCheck`. Raises
    NetworkError for a network with classes, and for an output that is no plain map (N, channels, height,
    width).
    """
    last = network.exits[-1]
    if last.logits is not None or len(network.exits) > 1:
        raise NetworkError(
            f"'{network.name}' decides between classes, so none of its outputs can be its exit's map; --maps N puts a new "
            "head in their place"
        )
    chosen = _chosen(network, output)
    height, width, channels = shape = network.tensors[chosen.tensor]
    plain = chosen.shape == (channels, height, width) and chosen.axes in ("chw", "c", "hw", "ch", "cw", "h", "w", "")
    if not plain or chosen.channels or (chosen.activation.endswith("softmax") and chosen.axis != 1):
        raise NetworkError(
            f"the maps of an exit must be a tensor (N, channels, height, width) as it stands, and output '{chosen.name}' "
            f"of '{network.name}' is another arrangement"
        )
    if chosen.activation not in _ENDS[task]:
        raise NetworkError(
            f"{task.value} must end in {' or '.join(end or 'no activation' for end in _ENDS[task])}, and output "
            f"'{chosen.name}' of '{network.name}' ends in {chosen.activation or 'none'}"
        )
    check = MapCheck(task=task, shape=shape, count=count, top=top, every=every)
    outputs = tuple(
        other for other in network.outputs if other is not chosen or network.tail is not None
    )  # it reads it
    names = network.class_names if len(network.class_names) == channels else ()
    exits = (Exit(name=last.name, logits=chosen.tensor),)
    return replace(network, exits=exits, outputs=outputs, check=check, class_names=names)


def _chosen(network: Network, name: str | None) -> Output:
    if name is None:
        if len(network.outputs) != 1:
            names = ", ".join(output.name for output in network.outputs) or "none"
            raise NetworkError(f"the output that an exit answers with must be named, for '{network.name}' has {names}")
        return network.outputs[0]
    outputs_by_name = {output.name: output for output in network.outputs}
    if name not in outputs_by_name:
        raise NetworkError(unknown_name("output", name, outputs_by_name, f"'{network.name}'"))
    return outputs_by_name[name]
