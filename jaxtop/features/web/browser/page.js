// Before Textual's own script: it reads the address of the websocket from the page.
const socket = new URL("ws", window.location.href);
socket.protocol = socket.protocol.replace("http", "ws");
document.getElementById("terminal").dataset.sessionWebsocketUrl = socket.href;
document.getElementById("again").addEventListener("click", () => window.location.reload());
// Once the websocket is open, keys go to the app without a click on it.
const loaded = new MutationObserver(() => {
  if (document.body.classList.contains("-loaded")) {
    loaded.disconnect();
    document.querySelector(".xterm-helper-textarea").focus();
  }
});
loaded.observe(document.body, { attributeFilter: ["class"] });
