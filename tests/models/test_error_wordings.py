# ruff: noqa: E501
"""How model servers word the same fault, from public bug reports and their source code."""

import gzip
import json
import zlib

import pytest

from rewardharness.models.base import ChatRequest, Message, ModelError, Reply
from rewardharness.models.faults import FieldRefusedError
from rewardharness.models.raw import RawReply
from rewardharness.models.replies import read_reply

SENT = frozenset(
    {"stop", "seed", "temperature", "max_tokens", "response_format", "logprobs", "uuid", "structured_outputs"}
)
KEY = "top" + "secret"


def e(message, **fields):
    """Return an error object as OpenAI writes it."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None} | fields}


def outcome(body, status=200, **request) -> Reply | ModelError:
    data = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else json.dumps(body).encode()
    raw = RawReply("host", status, data, model="judge", sent=SENT, secret=KEY)
    try:
        return read_reply(raw, ChatRequest((Message.of("user", "?"),), **request))
    except ModelError as problem:
        return problem


C, B, R, U = "context_too_long", "bad_request", "refused", "unauthorized"
M, W, L, S = "model_not_found", "wrong_address", "rate_limited", "server_error"
# fmt: off
ERRORS = [
# context
(400, e("request (9123 tokens) exceeds the available context size (4096 tokens), try increasing it", type="exceed_context_size_error", code=400), C),
(500, e("the request exceeds the available context size. try increasing the context size or enable context shift"), C),
(400, {"object":"error","message":"max_tokens must be at least 1, got -1517.","type":"BadRequestError","param":None,"code":400}, C),
(400, e("'max_tokens' or 'max_completion_tokens' is too large: 2048. This model's maximum context length is 4096 tokens and your request has 3000 input tokens (2048 > 4096 - 3000).", code=400, param="max_tokens"), C),
(400, e("The decoder prompt (length 9000) is longer than the maximum model length of 4096. Make sure that `max_model_len` is no smaller than the number of text tokens plus multimodal tokens. For image inputs, the number of image tokens depends on the number of images and possibly their aspect ratios as well."), C),
(400, e("The prompt (total length 9000) is too long to fit into the model (context length 4096). Make sure that `max_model_len` is no smaller than the number of text tokens plus multimodal tokens. For image inputs, the number of image tokens depends on the number of images, and possibly their aspect ratios as well."), C),
(400, e("You passed 4097 input tokens and requested 0 output tokens. However, the model's context length is only 4096 tokens, resulting in a maximum input length of 4096 tokens. Please reduce the length of the input prompt."), C),
(422, {"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 7000 `inputs` tokens and 2048 `max_new_tokens`","error_type":"validation"}, C),
(422, {"error":"Input validation error: `inputs` must have less than 1024 tokens. Given: 3000","error_type":"validation"}, C),
(422, {"error":"Input validation error: `max_new_tokens` must be strictly positive"}, C),
(400, e("Prompt length (9000) exceeds maximum input length (4096). Set log level to info and check TRTLLM model runner"), C),
(500, e("Encountered an error in forward function: The sum of prompt length (9000.0), query length (0) should not exceed max_num_tokens (8192)"), C),
(400, {"code":"InvalidParameter","message":"Range of input length should be [1, 30720]","request_id":"x"}, C),
(400, {"message":"Input is too long for requested model."}, C),
(400, {"message":"The model returned the following errors: input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000"}, C),
(400, e("prompt is too long: 210000 tokens > 200000 maximum"), C),
(413, e("Request too large for model `llama` in organization `org_1` on tokens per minute (TPM): Limit 6000, Requested 9000, please reduce your message size and try again.", type="tokens", code="rate_limit_exceeded"), C),
(429, e("Request too large for gpt-4o in organization org on tokens per min (TPM): Limit 30000, Requested 40000. The input or output tokens must be reduced in order to run successfully.", type="tokens", code="rate_limit_exceeded"), C),
(400, e("Please reduce the length of the messages or completion.", param="messages", code="context_length_exceeded"), C),
(400, e("Your input exceeds the context window of this model. Please adjust your input and try again."), C),
(400, e("the input length exceeds the context length"), C),
(500, e("input length exceeds maximum context length"), C),
(400, {"error":"Trying to keep the first 4500 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens"}, C),
(400, {"error":"The number of tokens to keep from the initial prompt is greater than the context length. Try to load the model with a larger context length"}, C),
(400, [e("The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).", code=400)], C),
(400, {"object":"error","message":"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_error","param":None,"code":"3051"}, C),
(400, {"message":"too many tokens: total number of tokens in the prompt cannot exceed 4081"}, C),
(400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens.", C),
(400, e("Current length is 9000 while limit is 8192", code="context_length_exceeded"), C),
(400, e("Prompt exceeds max length", code="1261"), C),
(400, e("Invalid request: Your request exceeded model token limit: 8192"), C),
(400, e("Total tokens of image and text exceed max message tokens. Request id: 1"), C),
(400, e("The input (9000 tokens) is longer than the model's context length (4096 tokens)."), C),
(400, e("Requested token count exceeds the model's maximum context length of 8192 tokens. You requested a total of 9000 tokens"), C),
(400, e("Input length (9000 tokens) exceeds the maximum allowed length (4096 tokens). Use a shorter input or enable --allow-auto-truncate."), C),
(500, e("litellm.BadRequestError: litellm.ContextWindowExceededError: OpenAIException - too long"), C),
(400, e("Prompt tokens (9000) exceeds context size (4096)", type="context_exceeded"), C),
(400, e("InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]"), C),
(200, e("maximum context length is 4096 tokens", code=400), C),
(400, e("Unable to fit the prompt: input tokens exceed the configured limit"), C),
(400, e("This endpoint's maximum context length is 32768 tokens. However, you requested about 40000 tokens (38000 of text input, 2000 in the output). Please reduce the length of either one, or use the \"middle-out\" transform", code=400), C),
# images
(404, e("No endpoints found that support image input", code=404), B),
(400, {"error":"Model does not support images. Please use a model that does."}, B),
(500, e("image input is not supported - hint: if this is unexpected, you may need to provide the mmproj", code=500), B),
(400, e("this model is missing data required for image input"), B),
(400, e("Invalid content type. image_url is only supported by certain models."), B),
(422, e("Failed to deserialize the JSON body into the target type: messages[1]: unknown variant `image_url`, expected `text` at line 1 column 99"), B),
(400, e("'messages.1' : for 'role:user' the following must be satisfied[('messages.1.content' : value must be a string)]"), B),
(400, {"message":"This model doesn't support the image content block that you provided."}, B),
(400, e("At most 2 image(s) may be provided in one prompt."), B),
(400, e("Too many images in request: 6 > 5"), B),
(400, e("The number of input images exceeds the limit of 5"), B),
(400, e("Qwen is not a multimodal model"), B),
(400, e("cannot identify image file <_io.BytesIO object at 0x7f>"), B),
(400, e("You uploaded an unsupported image. Please make sure your image is below 20 MB in size and is of one the following formats: ['png', 'jpeg', 'gif', 'webp'].", code="invalid_image_format"), B),
(400, e("Image size exceeds the maximum of 5 MB"), B),
# refused
(403, e("Your input was flagged for violence.", code=403, metadata={"reasons":["violence"],"flagged_input":"x"}), R),
(403, e("openai/gpt requires moderation on OpenAI. Your input was flagged for \"violence\"", code=403), R),
(400, e("The response was filtered due to the prompt triggering Azure OpenAI's content management policy.", code="content_filter"), R),
(400, {"code":"DataInspectionFailed","message":"Input data may contain inappropriate content."}, R),
(400, e("系统检测到输入或生成内容可能包含不安全或敏感内容", code="1301"), R),
(400, e("Your request was rejected as a result of our safety system."), R),
(403, e("Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO"), R),
(400, e("Output blocked by content filtering policy"), R),
(200, e("Your input was flagged", code=403), R),
(400, e("Invalid prompt: your prompt was flagged as potentially violating our usage policy.", code="invalid_prompt"), R),
(400, e("litellm.ContentPolicyViolationError: x"), R),
# auth etc
(403, e("Forbidden"), U), (403, "<html>Forbidden</html>", U), (401, e("Incorrect API key provided: sk-abc"), U),
(403, e("Country, region, or territory not supported", code="unsupported_country_region_territory"), U),
(402, e("Insufficient credits"), U), (200, e("Insufficient credits", code=402), U), (200, {"error":"Insufficient credits"}, U),
(200, e("Invalid credentials", code=401), U),
(429, e("You exceeded your current quota, please check your plan and billing details.", code="insufficient_quota"), U),
(429, e("You exceeded your current quota, please check your plan and billing details.", code=429, status="RESOURCE_EXHAUSTED"), L),
(429, e("Rate limit reached for x on tokens per min (TPM): Limit 6000, Used 5900, Requested 900. Please try again in 8s.", code="rate_limit_exceeded"), L),
(200, e("Rate limit exceeded", code=429), L), (200, {"error":"Rate limit exceeded"}, L), (200, {"object":"error","message":"rate limit","code":429}, L),
(200, e("Provider returned error", code=502), S), (200, {"error":{"message":"x"}}, S), (200, {"error": "The model is overloaded"}, L),
(500, e("Internal server error"), S), (503, e("overloaded"), S), (529, e("Overloaded"), L),
# 404
(404, {"detail":"Not Found"}, W), (404, "404 page not found", W), (404, "", W), (404, "<html>404</html>", W),
(200, {"error":"Unexpected endpoint or method. (POST /chat/completions)"}, W), (404, e("Invalid URL (POST /v1/chat/completions/chat/completions)"), W),
(404, "Cannot POST /chat/completions", W), (405, {"detail":"Method Not Allowed"}, W), (404, e("Resource not found", code="404"), W), (404, {"message":"Route POST:/chat/completions not found","error":"Not Found","statusCode":404}, W),
(404, {"timestamp":"x","status":404,"error":"Not Found","path":"/chat/completions"}, W), (404, e("File Not Found", code=404, type="not_found_error"), W),
(404, {"object":"error","message":"The model `x` does not exist.","type":"NotFoundError","code":404}, M),
(404, e("The API deployment for this resource does not exist. If you created the deployment within the last 5 minutes", code="DeploymentNotFound"), M),
(404, e("model 'x' not found, try pulling it first"), M), (404, e("No endpoints found for foo/bar.", code=404), M),
(400, e("/chat/completions: Invalid model name passed in model=x. Call `/v1/models` to view available models for your key."), M),
(400, e("The requested model 'x' is not supported by any provider you have enabled.", code="model_not_supported"), M),
(404, e("models/x is not found for API version v1main, or is not supported for generateContent", code=404, status="NOT_FOUND"), M),
(404, e("No endpoints found that can handle the requested parameters", code=404), B),
(404, e("No endpoints found that support tool use", code=404), B),
(404, e("Unknown endpoint"), W), (451, "", R), (400, e("Content Exists Risk"), R), (400, e("Billing hard limit has been reached"), U),
(403, e("Provider returned error", code=403, metadata={"reasons": ["violence"], "flagged_input": "a context length exceeded"}), R),
(400, e("请求的输入长度超过模型最大上下文"), C),
(302, "", B), (413, "Request Entity Too Large", B), (400, e("No such thing"), B), (413, "", B), (400, "whatever", B),
(400, "This model's maximum context length is 8192 tokens. However, you requested 9000", C),
(400, "The input token count (9) exceeds the maximum number of tokens allowed", C), (400, {"code": "context_length_exceeded"}, C),
(400, "content_policy_violation", R), (400, "API key not valid. Please pass a valid API key.", U), (401, "", U), (403, "", U),
(405, "", W), (408, "", "timeout"), (429, "slow down", L), (429, {"code": "insufficient_quota"}, U), (529, "", L),
(500, "CUDA out of memory", S), (502, "", S), (503, "", S),
]
# fmt: on


@pytest.mark.parametrize(("status", "body", "code"), ERRORS)
def test_the_wordings_of_a_fault(status, body, code):
    problem = outcome(body, status)
    assert problem.code == code and not isinstance(problem, FieldRefusedError), problem
    assert problem.message.startswith(f"host answered {status}: ") and len(problem.message) < 400
    assert (status == 200 or problem.status == status) and (problem.next_step or code == R)


@pytest.mark.parametrize("code", [403, "404"])
def test_an_error_in_a_reply_with_status_200_has_its_own_status(code):
    assert outcome(e("Provider returned error", code=code)).status == int(code)


# fmt: off
REFUSED = [
(400, e("Unsupported parameter: 'stop' is not supported with this model.", param="stop", code="unsupported_parameter"), "stop"),
(400, e("Unsupported parameter: 'stop' is not supported with this model."), "stop"),
(422, {"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","seed"],"msg":"Extra inputs are not permitted","input":0}]}}, "seed"),
(422, {"detail":[{"type":"extra_forbidden","loc":["body","seed"],"msg":"Extra inputs are not permitted","input":0}]}, "seed"),
(400, e("Unsupported value: 'temperature' does not support 0.0 with this model. Only the default (1) value is supported.", param="temperature", code="unsupported_value"), "temperature"),
(400, e("`temperature` is deprecated for this model."), "temperature"),
(422, {"error":"Input validation error: `temperature` must be strictly positive"}, "temperature"),
(400, e("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", param="max_tokens", code="unsupported_parameter"), "max_tokens"),
(400, e("litellm.UnsupportedParamsError: anthropic does not support parameters: ['seed'], for model=claude. To drop these, set `litellm.drop_params=True`"), "seed"),
(500, e("ollama does not support parameters: {'seed': 1}, for model=llama3:latest. To drop these, set `litellm.drop_params=True`", code=500), "seed"),
(403, e("You are not allowed to request logprobs from this model"), "logprobs"),
(400, e("'logprobs' is not supported with this model"), "logprobs"),
(400, e("property 'seed' is unsupported"), "seed"),
(400, e("Argument not supported on this model: stop"), "stop"),
(422, "Failed to deserialize the JSON body into the target type: unknown field `seed`, expected one of `messages`, `model`, `stop` at line 1", "seed"),
(400, {"message":"extraneous key [seed] is not permitted"}, "seed"),
(400, e("Unrecognized request argument supplied: seed"), "seed"),
(400, e("json: unknown field \"stop\""), "stop"),
(400, [e("Invalid JSON payload received. Unknown name \"seed\": Cannot find field.", code=400)], "seed"),
(400, e("This response_format type is unavailable now"), "response_format"),
(400, e("Failed to transform json schema into a grammar"), "response_format"),
(400, e("Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."), "response_format"),
(400, e("Unknown parameter: 'structured_outputs'.", param="structured_outputs", code="unknown_parameter"), "structured_outputs"),
(400, e("Unexpected fields: ['uuid']"), "uuid"),
(422, {"detail":[{"type":"extra_forbidden","loc":["body","messages",0,"user","content","list[image]",0,"uuid"],"msg":"Extra inputs are not permitted"}]}, "uuid"),
(400, e("stop: Extra inputs are not permitted"), "stop"),
(404, e("seed is not supported by this provider", code=404), "seed"),
(501, e("logprobs not implemented: unsupported"), "logprobs"),
(200, e("Unsupported parameter: 'stop' is not supported with this model.", code=400, param="stop"), "stop"),
(200, {"object":"error","message":"Unknown field: seed","code":422}, "seed"),
(400, e("Unsupported parameter(s): `seed`, `stop`"), "stop"),
(400, {"error": {"code": "BadRequest", "message": "Stop sequences are not supported for this model"}}, "stop"),
(422, {"error": {"message": "1 validation error for ChatCompletionRequest\nseed\n  Extra inputs are not permitted [type=extra_forbidden, input_value=0, input_type=int]"}}, "seed"),
(400, e("[{'type': 'extra_forbidden', 'loc': ('body', 'seed'), 'msg': 'Extra inputs are not permitted', 'input': 0}]"), "seed"),
(400, e("Max tokens: max_tokens is not supported"), "max_tokens"),
]
# fmt: on


@pytest.mark.parametrize(("status", "body", "name"), REFUSED)
def test_the_wordings_of_a_refused_field(status, body, name):
    problem = outcome(body, status)
    assert isinstance(problem, FieldRefusedError) and problem.field == name, problem


@pytest.mark.parametrize(
    "said", [f"bad {KEY}", "bad sk-abc-123", "Bearer abc", "data:image/png;base64,iVBOR", "x" * 90, "a\u202eb\nc"]
)
def test_what_a_message_quotes(said):
    message = outcome(e(f"No such thing: {said}"), 400).message
    assert "No such thing" in message and message.isprintable()
    assert not any(word in message for word in (KEY, "sk-abc", "Bearer", "iVBOR", "xxx"))


def chat(content="A", finish="stop", **message):
    return {"choices": [{"message": {"content": content, **message}, "finish_reason": finish}]}


@pytest.mark.parametrize(
    ("reason", "found"),
    [
        *((word, "stop") for word in ("stop", "STOP", "eos", "EOS_TOKEN", "stop_sequence", "end_turn", "COMPLETE")),
        *((word, "stop") for word in ("FINISH_REASON_STOP", "FinishReason.STOP", {"type": "stop"})),
        *((word, "cut") for word in ("length", "LENGTH", "MAX_TOKENS", "model_length", "abort", "tool_calls")),
        *(
            (word, "cut")
            for word in ("FINISH_REASON_MAX_TOKENS", "something new", 7, "OTHER", "MALFORMED_FUNCTION_CALL")
        ),
        *((word, R) for word in ("content_filter", "CONTENT_FILTER", "SAFETY", "sensitive", "refusal", "RECITATION")),
        *((word, R) for word in ("guardrail_intervened", "content_filtered", "PROHIBITED_CONTENT", "blocklist")),
        *((word, S) for word in ("error", "ERROR", "network_error", "insufficient_system_resource", "timeout")),
    ],
)
@pytest.mark.parametrize("content", ["A", None])
def test_only_some_reasons_mean_that_a_reply_is_finished(reason, found, content):
    reply = outcome(chat(content, reason))
    if found in (R, S):
        assert reply.code == found
    elif found == "cut":
        assert reply.cut_off and reply.text == (content or "")
    else:
        assert reply.code == "bad_response" if content is None else not reply.cut_off


WHOLE = json.dumps(chat())
DELTAS = [{"choices": [{"delta": {"content": text}, "finish_reason": None}]} for text in "AB"]
END = {"choices": [{"delta": {}, "finish_reason": "stop"}]}


def stream(*events, done="data: [DONE]\n\n") -> str:
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events) + done


THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "B?"}]}
ANSWER = '{"preference": "A"}'


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (f"{WHOLE}\n\ndata: [DONE]\n\n", "A"),
        (f"{WHOLE}data: [DONE]", "A"),
        (f": PROCESSING\n\n: PROCESSING\r\n\r\n{WHOLE}", "A"),
        (f"\ufeff{WHOLE}", "A"),
        (f"event: message\ndata: {WHOLE}\n\n", "A"),
        (f": keep-alive\n{json.dumps(chat(), indent=2)}", "A"),
        (gzip.compress(WHOLE.encode(), mtime=0), "A"),
        (zlib.compress(WHOLE.encode()), "A"),
        ([chat()], "A"),
        (stream(*DELTAS, END), "AB"),
        (stream(*DELTAS, END, {"choices": [], "usage": {"prompt_tokens": 5}}, done=""), "AB"),
        (chat([THOUGHT, {"type": "text", "text": "A"}]), "A"),
        (chat([{"type": "output_text", "text": "A"}, {"type": "text", "text": "C"}]), "AC"),
        (chat(["A"]), "A"),
        (chat([{"text": "B", "thought": True}, {"text": "A"}]), "A"),
        (chat({"type": "text", "text": "A"}), "A"),
        (chat(None, reasoning_content=ANSWER), ANSWER),
        (chat("", reasoning=f"I see B. </think>{ANSWER}"), ANSWER),
        ({"choices": [{"text": "A", "finish_reason": "stop"}]}, "A"),
        (chat("A") | {"error": None}, "A"),
        (chat("one </tool> two", "length"), "one "),
    ],
)
def test_the_forms_of_a_complete_reply(body, text):
    reply = outcome(body, 201, stop=("</tool>",))
    assert isinstance(reply, Reply) and reply.text == text and not reply.cut_off, reply


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (stream(*DELTAS), "cut"),
        (stream(*DELTAS, e("upstream closed", code=502)), S),
        (stream(*DELTAS) + "data: {", "bad_response"),
        (chat(None, reasoning_content="First B: " + ANSWER), "bad_response"),
        (chat("", reasoning="Perhaps B."), "bad_response"),
        (chat() | {"error": {"code": 502, "message": "Provider returned error"}}, S),
        ({"choices": [chat()["choices"][0] | {"error": {"message": "closed"}}]}, S),
        (chat([THOUGHT]), "bad_response"),
        (chat([{"type": "refusal", "refusal": "No."}]), R),
        ({"choices": [chat()["choices"][0] | {"native_finish_reason": "MAX_TOKENS"}]}, "cut"),
        (b"\x1f\x8b", "bad_response"),
        ("", "bad_response"),
    ],
)
def test_a_broken_reply_is_never_complete(body, code):
    found = outcome(body)
    assert found.cut_off if code == "cut" else found.code == code, found
