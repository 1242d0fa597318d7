import cv2
import numpy as np
from drawn_edits import disc, grade, photo, view

from rewardharness.judging.instruction import read_instruction
from rewardharness.measure.regions import edit_presence
from rewardharness.measure.structure import background_change

CAT = photo("chelsea", 240, 160)
BLUR = read_instruction("Blur the background.")


def test_a_blurred_background_needs_a_sharp_subject_in_front() -> None:
    soft = cv2.GaussianBlur(CAT, (0, 0), 6)
    mask = disc(*CAT.shape[:2], radius=0.3)[..., None]
    honest = (CAT * mask + soft * (1 - mask)).astype(np.uint8)
    turned = (soft * mask + CAT * (1 - mask)).astype(np.uint8)
    _, data = cv2.imencode(".jpg", CAT, [cv2.IMWRITE_JPEG_QUALITY, 10])
    blocks = cv2.imdecode(data, cv2.IMREAD_COLOR)
    assert grade(background_change, CAT, honest, BLUR) > 0.8 and grade(edit_presence, CAT, honest, BLUR) > 0.8
    for exploit in (CAT, soft, turned, blocks):
        assert grade(background_change, CAT, exploit, BLUR) < 0.15
    assert background_change(view(CAT, honest), read_instruction("Change the background to a forest")).grade is not None
