"""Theme of the app: colors and sizes of Gradio's widgets. `assets/style.css` styles our own markup."""

import gradio as gr

_LOOK = {
    "body_background_fill": ("#f7f7f5", "#131416"),
    "background_fill_primary": ("#ffffff", "#1b1d20"),
    "background_fill_secondary": ("#f1f1ee", "#17191b"),
    "block_background_fill": ("#ffffff", "#1b1d20"),
    "block_border_width": ("1px",),
    "block_border_color": ("#e3e3de", "#2c2f34"),
    "border_color_primary": ("#e3e3de", "#2c2f34"),
    "block_shadow": ("none",),
    "block_title_text_weight": ("600",),
    "block_title_text_color": ("*neutral_800", "*neutral_100"),
    "block_label_background_fill": ("*background_fill_primary", "*background_fill_primary"),
    "block_label_text_color": ("*neutral_700", "*neutral_200"),
    "block_label_text_weight": ("600",),
    "block_info_text_color": ("*neutral_600", "*neutral_400"),
    "input_background_fill": ("#ffffff", "#131416"),
    "input_border_color": ("#cfcfc8", "#3b3f45"),
    "input_border_color_focus": ("*primary_600", "*primary_400"),
    "input_placeholder_color": ("*neutral_500", "*neutral_400"),
    "button_primary_background_fill": ("*primary_700", "*primary_700"),
    "button_primary_background_fill_hover": ("*primary_800", "*primary_800"),
    "button_primary_text_color": ("#ffffff", "#ffffff"),
    "button_secondary_background_fill": ("#ffffff", "#23262a"),
    "button_secondary_background_fill_hover": ("#f1f1ee", "#2c2f34"),
    "button_secondary_border_color": ("#cfcfc8", "#3b3f45"),
    "button_border_width": ("1px",),
    "button_primary_border_color": ("transparent", "transparent"),
    "link_text_color": ("*primary_700", "*primary_300"),
    "checkbox_label_background_fill_selected": ("*primary_50", "#12312e"),
    "checkbox_label_text_color_selected": ("*primary_900", "*primary_100"),
    "checkbox_label_border_color_selected": ("*primary_600", "*primary_500"),
    "checkbox_label_shadow": ("none",),
    "layout_gap": ("16px",),
    "color_accent": ("*primary_700",),
    "input_border_width": ("1px",),
    "button_large_text_weight": ("600",),
    "button_medium_text_weight": ("500",),
    "button_small_text_weight": ("500",),
    "checkbox_background_color_selected": ("*primary_700", "*primary_500"),
    "checkbox_border_color_selected": ("*primary_700", "*primary_500"),
}
"""Variables of the theme that differ from Gradio's, in light and in dark; an asterisk refers to its palettes."""


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
    modes = ((0, ""), (1, "_dark"))
    return theme.set(**{name + mode: pair[n] for name, pair in _LOOK.items() for n, mode in modes[: len(pair)]})
