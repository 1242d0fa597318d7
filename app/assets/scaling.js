() => {
  // Photographs with a side of more than SIDE pixels are scaled down before they are sent, whichever field they are for
  // and however they came there; all others are sent as they are. The name of the file records the size: see
  // app/score/uploaded.py.
  const SIDE = 2048, MOST = 20 * 1024 * 1024;
  const send = window.fetch;

  const scaled = async (file) => {
    if (!(file instanceof File) || !file.type.startsWith("image/")) return file;
    let image = null;
    try {
      image = await createImageBitmap(file, { imageOrientation: "from-image" });
      const { width, height } = image, factor = SIDE / Math.max(width, height);
      if (factor >= 1) return file;
      const canvas = document.createElement("canvas");
      canvas.width = Math.max(1, Math.round(width * factor));
      canvas.height = Math.max(1, Math.round(height * factor));
      const size = { resizeWidth: canvas.width, resizeHeight: canvas.height, resizeQuality: "high" };
      canvas.getContext("2d").drawImage(await createImageBitmap(image, size), 0, 0);
      const content = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
      const stem = file.name.replace(/\.[^.]*$/, "").slice(0, 60);
      return content ? new File([content], `${stem}.from-${width}x${height}.png`, { type: "image/png" }) : file;
    } catch {
      return file; // the app says what is wrong with it
    } finally {
      image?.close();
    }
  };

  window.fetch = async (place, options) => {
    const path = new URL(place?.url ?? place, location.href).pathname;
    if (!path.endsWith("/gradio_api/upload") || !(options?.body instanceof FormData)) return send(place, options);
    const body = new FormData();
    for (const [name, value] of options.body.entries()) body.append(name, await scaled(value));
    const large = [...body.values()].find((value) => value.size > MOST);
    if (large) return new Response(`${large.name} has more than 20 MB. Scale it down, or split it.`, { status: 413 });
    return send(place, { ...options, body });
  };
}
