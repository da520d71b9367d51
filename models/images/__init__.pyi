from .class_names import checked_class_names as checked_class_names
from .class_names import read_class_names as read_class_names
from .files import read_image_file as read_image_file
from .files import read_images as read_images
from .image_set import SHIPPED_DATA as SHIPPED_DATA
from .image_set import ImageSet as ImageSet
from .intake import Intake as Intake
from .preprocessing import Preprocessing as Preprocessing
