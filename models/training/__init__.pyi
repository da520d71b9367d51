from .fashion_mnist import FASHION_MNIST_FOLDER as FASHION_MNIST_FOLDER
from .fashion_mnist import load_fashion_mnist as load_fashion_mnist
from .heads import FittedHeads as FittedHeads
from .heads import fit_heads as fit_heads
from .loop import TrainedModel as TrainedModel
from .loop import train as train
from .loop import train_model as train_model
