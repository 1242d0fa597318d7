"""Theme of the app: colors and sizes of Gradio's widgets. `assets/style.css` styles our own markup."""

import gradio as gr

_LOOK = {
    ("#f7f7f5", "#131416"): "body_background_fill",
    ("#ffffff", "#1b1d20"): "background_fill_primary block_background_fill",
    ("#f1f1ee", "#17191b"): "background_fill_secondary",
    ("1px",): "block_border_width button_border_width input_border_width",
    ("#e3e3de", "#2c2f34"): "block_border_color border_color_primary",
    ("none",): "block_shadow checkbox_label_shadow",
    ("600",): "block_title_text_weight block_label_text_weight button_large_text_weight",
    ("*neutral_800", "*neutral_100"): "block_title_text_color",
    ("*background_fill_primary", "*background_fill_primary"): "block_label_background_fill",
    ("*neutral_700", "*neutral_200"): "block_label_text_color",
    ("*neutral_600", "*neutral_400"): "block_info_text_color",
    ("#ffffff", "#131416"): "input_background_fill",
    ("#cfcfc8", "#3b3f45"): "input_border_color button_secondary_border_color",
    ("*primary_600", "*primary_400"): "input_border_color_focus",
    ("*neutral_500", "*neutral_400"): "input_placeholder_color",
    ("*primary_700", "*primary_700"): "button_primary_background_fill",
    ("*primary_800", "*primary_800"): "button_primary_background_fill_hover",
    ("#ffffff", "#ffffff"): "button_primary_text_color",
    ("#ffffff", "#23262a"): "button_secondary_background_fill",
    ("#f1f1ee", "#2c2f34"): "button_secondary_background_fill_hover",
    ("transparent", "transparent"): "button_primary_border_color",
    ("*primary_700", "*primary_300"): "link_text_color",
    ("*primary_50", "#12312e"): "checkbox_label_background_fill_selected",
    ("*primary_900", "*primary_100"): "checkbox_label_text_color_selected",
    ("*primary_600", "*primary_500"): "checkbox_label_border_color_selected",
    ("16px",): "layout_gap",
    ("*primary_700",): "color_accent",
    ("500",): "button_medium_text_weight button_small_text_weight",
    ("*primary_700", "*primary_500"): "checkbox_background_color_selected checkbox_border_color_selected",
}
"""Variables of the theme that differ from Gradio's, by their values in light and in dark.

An asterisk refers to the palettes of Gradio.
"""


def make_theme() -> gr.themes.Base:
    """Build the theme: system fonts, quiet neutral surfaces, one accent color, light and dark."""
    theme = gr.themes.Base(
        primary_hue=gr.themes.colors.teal,
        secondary_hue=gr.themes.colors.teal,
        neutral_hue=gr.themes.colors.zinc,
        radius_size=gr.themes.sizes.radius_lg,
        text_size=gr.themes.sizes.text_md,
        font=["system-ui", "-apple-system", "Segoe UI", "Roboto", "Noto Sans", "sans-serif"],
        font_mono=["ui-monospace", "SFMono-Regular", "Consolas", "Liberation Mono", "monospace"],
    )
    return theme.set(
        **{
            name + mode: value
            for values, names in _LOOK.items()
            for name in names.split()
            for mode, value in zip(("", "_dark"), values, strict=False)
        }
    )
