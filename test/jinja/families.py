"""Chat templates like those of published families, written for these tests: their use of Jinja, not their texts."""

# Messages between markers.
CHATML = """{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n' }}{% endfor %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
SMOL2 = """{% for m in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\nYou help.<|im_end|>\\n' }}{% endif %}{{'<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
ZEPHYR = """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>\\n' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>\\n'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}
"""
OLMO2 = """{{ bos_token }}{% for m in messages %}{% if m['role'] == 'system' %}{{ '<|system|>\\n' + m['content'] + '\\n' }}{% elif m['role'] == 'user' %}{{ '<|user|>\\n' + m['content'] + '\\n' }}{% elif m['role'] == 'assistant' %}{% if not loop.last %}{{ '<|assistant|>\\n' + m['content'] + eos_token + '\\n' }}{% else %}{{ '<|assistant|>\\n' + m['content'] + eos_token }}{% endif %}{% endif %}{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}{% endfor %}"""
PHI3 = """{{ bos_token }}{% for m in messages %}{% if (m['role'] in ['user', 'system']) %}{{ '<|' + m['role'] + '|>' + '\\n' + m['content'] + '<|end|>' + '\\n' }}{% elif m['role'] == 'assistant' %}{{ '<|assistant|>\\n' + m['content'] + '<|end|>\\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}"""
PHI4_MINI = """{% for m in messages %}{% if m['role'] == 'system' and 'tools' in m and m['tools'] is not none %}{{ '<|' + m['role'] + '|>' + m['content'] + '<|tool|>' + m['tools'] + '<|/tool|>' + '<|end|>' }}{% else %}{{ '<|' + m['role'] + '|>' + m['content'] + '<|end|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% else %}{{ eos_token }}{% endif %}"""
PHI4 = """{% for m in messages %}{% if (m['role'] == 'system') %}{{'<|im_start|>system<|im_sep|>' + m['content'] + '<|im_end|>'}}{% elif (m['role'] == 'user') %}{{'<|im_start|>user<|im_sep|>' + m['content'] + '<|im_end|>'}}{% elif (m['role'] == 'assistant') %}{{'<|im_start|>assistant<|im_sep|>' + m['content'] + '<|im_end|>'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}"""

# Strict alternation, system messages within the user's.
LLAMA2 = """{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}
{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate: user/assistant/user') }}{% endif %}
{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}
{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"""
GEMMA2 = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('must alternate') }}{% endif %}{% if (m['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = m['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\\n' + m['content'] | trim + '<end_of_turn>\\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\\n'}}{% endif %}"""
GEMMA3 = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set prefix = messages[0]['content'] + '\\n\\n' -%}
    {%- else -%}
        {%- set prefix = messages[0]['content'][0]['text'] + '\\n\\n' -%}
    {%- endif -%}
    {%- set rest = messages[1:] -%}
{%- else -%}
    {%- set prefix = "" -%}
    {%- set rest = messages -%}
{%- endif -%}
{%- for m in rest -%}
    {%- if (m['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("roles must alternate") }}
    {%- endif -%}
    {%- set role = "model" if m['role'] == 'assistant' else m['role'] -%}
    {{ '<start_of_turn>' + role + '\\n' + (prefix if loop.first else "") }}
    {%- if m['content'] is string -%}
        {{ m['content'] | trim }}
    {%- elif m['content'] is iterable -%}
        {%- for item in m['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("invalid content") }}
    {%- endif -%}
    {{ '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\\n' }}{%- endif -%}"""
MISTRAL_TOOLS = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace(index=0) %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("user and assistant must take turns") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" }}{%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 9 %}
                {{- raise_exception("Tool call IDs should have 9 letters!") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" + eos_token }}{%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- elif message["role"] == "tool_results" or message["role"] == "tool" %}
        {%- if message.content is defined and message.content.content is defined %}
            {%- set content = message.content.content %}
        {%- else %}
            {%- set content = message.content %}
        {%- endif %}
        {{- '[TOOL_RESULTS] {"content": ' + content|string + "}[/TOOL_RESULTS]" }}
    {%- else %}
        {{- raise_exception("unknown role " + message.role) }}
    {%- endif %}
{%- endfor %}
"""
MISTRAL_SMALL = """{%- set today = strftime_now("%Y-%m-%d") %}
{%- set default = "Today is " + today + ". Ask when in doubt." %}
{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}
    {%- if messages[0]['content'] is string %}{%- set sys = messages[0]['content'] %}{%- else %}{%- set sys = messages[0]['content'][0]['text'] %}{%- endif %}
    {%- set rest = messages[1:] %}
{%- else %}
    {%- set sys = default %}
    {%- set rest = messages %}
{%- endif %}
{{- '[SYSTEM_PROMPT]' + sys + '[/SYSTEM_PROMPT]' }}
{%- for m in rest %}
    {%- if m.role == 'user' %}
        {%- if m.content is string %}{{- '[INST]' + m.content + '[/INST]' }}
        {%- else %}{{- '[INST]' }}{%- for part in m.content %}{%- if part.type == 'text' %}{{- part.text }}{%- elif part.type in ['image', 'image_url'] %}{{- '[IMG]' }}{%- else %}{{- raise_exception('only text and images: ' ~ part.type) }}{%- endif %}{%- endfor %}{{- '[/INST]' }}{%- endif %}
    {%- elif m.role == 'assistant' %}{{- (m.content or '') + eos_token }}
    {%- endif %}
{%- endfor %}"""

# Dates, tools, code.
LLAMA31 = """{{- bos_token }}
{%- if custom_tools is defined %}{%- set tools = custom_tools %}{%- endif %}
{%- if not tools_in_user_message is defined %}{%- set tools_in_user_message = true %}{%- endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}{%- set date_string = strftime_now("%d %b %Y") %}{%- else %}{%- set date_string = "26 Jul 2024" %}{%- endif %}
{%- endif %}
{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if builtin_tools is defined or tools is not none %}{{- "Environment: ipython\\n" }}{%- endif %}
{%- if builtin_tools is defined %}{{- "Tools: " + builtin_tools | reject('equalto', 'code_interpreter') | join(", ") + "\\n\\n"}}{%- endif %}
{{- "Today Date: " + date_string + "\\n\\n" }}
{%- if tools is not none and not tools_in_user_message %}
    {%- for t in tools %}{{- t | tojson(indent=4) }}{{- "\\n\\n" }}{%- endfor %}
{%- endif %}
{{- system_message }}{{- "<|eot_id|>" }}
{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first_user_message = messages[0]['content']|trim %}
        {%- set messages = messages[1:] %}
    {%- else %}
        {{- raise_exception("no first user message to put tools in") }}
    {%- endif %}
    {{- '<|start_header_id|>user<|end_header_id|>\\n\\nFunctions:\\n' -}}
    {%- for t in tools %}{{- t | tojson(indent=4) }}{{- "\\n\\n" }}{%- endfor %}
    {{- first_user_message + "<|eot_id|>"}}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}{{- raise_exception("one tool call at a time") }}{%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {%- if builtin_tools is defined and tool_call.name in builtin_tools %}
            {{- "<|python_tag|>" + tool_call.name + ".call(" }}
            {%- for arg_name, arg_val in tool_call.arguments | items %}{{- arg_name + '="' ~ arg_val ~ '"' }}{%- if not loop.last %}{{- ", " }}{%- endif %}{%- endfor %}
            {{- ")<|eom_id|>" }}
        {%- else %}
            {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}
            {{- '{"name": "' + tool_call.name + '", ' }}{{- '"parameters": ' }}{{- tool_call.arguments | tojson }}{{- "}" }}{{- "<|eot_id|>" }}
        {%- endif %}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}
        {%- if message.content is mapping or (message.content is iterable and message.content is not string) %}{{- message.content | tojson }}{%- else %}{{- message.content }}{%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}
"""
LLAMA3 = """{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"""
QWEN25 = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0]['role'] == 'system' %}{{- messages[0]['content'] }}{%- else %}{{- 'You help.' }}{%- endif %}
    {{- "\\n\\n# Tools\\n<tools>" }}
    {%- for tool in tools %}{{- "\\n" }}{{- tool | tojson }}{%- endfor %}
    {{- "\\n</tools>\\n{\\"name\\": <name>}<|im_end|>\\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}{{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}{%- else %}{{- '<|im_start|>system\\nYou help.<|im_end|>\\n' }}{%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}{{- '\\n' + message.content }}{%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}{%- set tool_call = tool_call.function %}{%- endif %}
            {{- '\\n<tool_call>\\n{"name": "' }}{{- tool_call.name }}{{- '", "arguments": ' }}{{- tool_call.arguments | tojson }}{{- '}\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<tool_response>\\n' }}{{- message.content }}{{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""

# Thinking.
QWEN3 = """{%- set ns = namespace(multi_step=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role in ["user", "system"] %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last and (loop.last or (not loop.last and reasoning)) %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}
{%- endif %}"""
DEEPSEEK_R1 = """{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% set ns = namespace(is_first=false, is_tool=false, system_prompt='', first=true) %}{%- for m in messages %}{%- if m['role'] == 'system' %}{%- if ns.first %}{% set ns.system_prompt = ns.system_prompt + m['content'] %}{% set ns.first = false %}{%- else %}{% set ns.system_prompt = ns.system_prompt + '\\n\\n' + m['content'] %}{%- endif %}{%- endif %}{%- endfor %}{{ bos_token }}{{ ns.system_prompt }}{%- for m in messages %}{%- if m['role'] == 'user' %}{%- set ns.is_tool = false -%}{{'<｜User｜>' + m['content']}}{%- endif %}{%- if m['role'] == 'assistant' and m['content'] is not none %}{% set content = m['content'] %}{% if '</think>' in content %}{% set content = content.split('</think>')[-1] %}{% endif %}{{'<｜Assistant｜>' + content + '<｜end▁of▁sentence｜>'}}{%- endif %}{%- endfor -%}{% if add_generation_prompt and not ns.is_tool %}{{'<｜Assistant｜><think>\\n'}}{% endif %}"""
SMOL3 = """{%- if enable_thinking is not defined -%}{%- set enable_thinking = true -%}{%- endif -%}
{%- if enable_thinking -%}{%- set mode = "/think" -%}{%- else -%}{%- set mode = "/no_think" -%}{%- endif -%}
{{- "<|im_start|>system\\n" -}}
{%- if messages[0].role == "system" -%}
  {%- set system = messages[0].content -%}
  {%- if "/no_think" in system -%}{%- set mode = "/no_think" -%}{%- elif "/think" in system -%}{%- set mode = "/think" -%}{%- endif -%}
  {%- set custom = system.replace("/no_think", "").replace("/think", "").rstrip() -%}
{%- endif -%}
{{- "Mode: " ~ mode ~ "\\nToday: " ~ strftime_now("%d %B %Y") ~ "\\n" -}}
{%- if custom is defined -%}{{- custom + "\\n" -}}{%- endif -%}
{%- if xml_tools or python_tools or tools -%}
  {{- "### Tools\\n" -}}
  {%- if tools -%}{%- set ns = namespace(text="<tools>\\n") -%}{%- for tool in tools -%}{%- set ns.text = ns.text ~ (tool | string) ~ "\\n" -%}{%- endfor -%}{{- ns.text + "</tools>" -}}{%- endif -%}
{%- endif -%}
{{- "<|im_end|>\\n" -}}
{%- for message in messages -%}
  {%- set content = message.content if message.content is string else "" -%}
  {%- if message.role == "user" -%}{{ "<|im_start|>user\\n" + content + "<|im_end|>\\n" }}
  {%- elif message.role == "assistant" -%}{% generation %}{%- if mode == "/think" -%}{{ "<|im_start|>assistant\\n" + content.lstrip("\\n") + "<|im_end|>\\n" }}{%- else -%}{{ "<|im_start|>assistant\\n<think>\\n\\n</think>\\n" + content.lstrip("\\n") + "<|im_end|>\\n" }}{%- endif -%}{% endgeneration %}
  {%- elif message.role == "tool" -%}{{ "<|im_start|>user\\n" + content + "<|im_end|>\\n" }}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{%- if mode == "/think" -%}{{ "<|im_start|>assistant\\n" }}{%- else -%}{{ "<|im_start|>assistant\\n<think>\\n\\n</think>\\n" }}{%- endif -%}{%- endif -%}"""
GLM = """[gMASK]<sop>
{%- if tools -%}<|system|>
# Tools
{% for tool in tools %}
{{ tool | tojson(ensure_ascii=False) }}
{% endfor %}
{%- endif -%}
{%- macro visible(content) -%}
    {%- if content is string -%}{{ content }}
    {%- elif content is iterable and content is not mapping -%}
        {%- for item in content -%}{%- if item is mapping and item.type == 'text' -%}{{ item.text }}{%- elif item is string -%}{{ item }}{%- endif -%}{%- endfor -%}
    {%- else -%}{{ content }}{%- endif -%}
{%- endmacro -%}
{%- set ns = namespace(last=-1) %}
{%- for m in messages %}{%- if m.role == 'user' %}{% set ns.last = loop.index0 -%}{%- endif %}{%- endfor %}
{% for m in messages %}
{%- if m.role == 'user' -%}<|user|>
{{ visible(m.content) }}
{{- '/nothink' if (enable_thinking is defined and not enable_thinking and not visible(m.content).endswith("/nothink")) else '' -}}
{%- elif m.role == 'assistant' -%}<|assistant|>
{%- set content = visible(m.content) %}
{%- if loop.index0 > ns.last %}{{ '\\n<think></think>' }}{%- endif -%}
{%- if content.strip() -%}{{ '\\n' + content.strip() }}{%- endif -%}
{%- elif m.role == 'system' -%}<|system|>
{{ visible(m.content) }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|assistant|>{{- '\\n<think></think>' if (enable_thinking is defined and not enable_thinking) else '' -}}{%- endif -%}"""

# Macros over tools and documents.
HERMES = """{%- macro python_type(spec) %}
{%- set basic = {"string": "str", "number": "float", "integer": "int", "boolean": "bool"} %}
{%- if basic[spec.type] is defined %}{{- basic[spec.type] }}
{%- elif spec.type == "array" %}{{- "list[" + python_type(spec|items) + "]" }}
{%- elif spec.type == "object" %}{%- if spec.additionalProperties is defined %}{{- "dict[str, " + python_type(spec.additionalProperties) + ']' }}{%- else %}{{- "dict" }}{%- endif %}
{%- elif spec.type is iterable %}{{- "Union[" }}{%- for t in spec.type %}{{- python_type({"type": t}) }}{%- if not loop.last %}{{- "," }}{%- endif %}{%- endfor %}{{- "]" }}
{%- else %}{{- "Any" }}{%- endif %}
{%- endmacro %}
{{- bos_token }}{{- '<|im_start|>system\\nTools: <tools> ' }}
{%- if tools is iterable and tools | length > 0 %}
  {%- for tool in tools %}
    {%- if tool.function is defined %}{%- set tool = tool.function %}{%- endif %}
    {{- '{"type": "function", "function": {"name": "' + tool.name + '", "description": "' + tool.name + '(' }}
    {%- for name, fields in tool.parameters.properties|items %}{{- name + ": " + python_type(fields) }}{%- if not loop.last %}{{- ", " }}{%- endif %}{%- endfor %}
    {{- ")" }}{%- if tool.return is defined %}{{- " -> " + python_type(tool.return) }}{%- endif %}
    {{- " - " + (tool.description or '') + '", "parameters": ' }}
    {%- if tool.parameters.properties | length == 0 %}{{- "{}" }}{%- else %}{{- tool.parameters|tojson }}{%- endif %}{{- "}" }}
    {%- if not loop.last %}{{- "\\n" }}{%- endif %}
  {%- endfor %}
{%- endif %}
{{- " </tools><|im_end|>\\n" }}
{%- for m in messages %}
  {%- if m.role in ("user", "system") or (m.role == "assistant" and m.tool_calls is not defined) %}{{- '<|im_start|>' + m.role + '\\n' + (m.content or '') + '<|im_end|>' + '\\n' }}
  {%- elif m.role == "assistant" %}{{- '<|im_start|>' + m.role }}{%- for call in m.tool_calls %}{{- '\\n<tool_call>\\n' }}{%- if call.function is defined %}{%- set call = call.function %}{%- endif %}{{- '{"arguments": ' }}{{- call.arguments|tojson }}{{- ', "name": "' + call.name + '"}\\n</tool_call>' }}{%- endfor %}{{- '<|im_end|>\\n' }}
  {%- elif m.role == "tool" %}{%- if loop.previtem and loop.previtem.role != "tool" %}{{- '<|im_start|>tool\\n' }}{%- endif %}{{- '<tool_response>\\n' }}{{- m.content }}{%- if not loop.last %}{{- '\\n</tool_response>\\n' }}{%- else %}{{- '\\n</tool_response>' }}{%- endif %}{%- if not loop.last and loop.nextitem.role != "tool" %}{{- '<|im_end|>' }}{%- elif loop.last %}{{- '<|im_end|>' }}{%- endif %}{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""
GPT_OSS = """{%- macro ts_type(spec, required, nullable=false) -%}
  {%- if spec.type == "array" -%}{%- if spec['items'] -%}{%- if spec['items'].type == "string" -%}{{- "string[]" }}{%- else -%}{{- ts_type(spec['items'], required) + "[]" }}{%- endif -%}{%- else -%}{{- "any[]" }}{%- endif -%}
  {%- elif spec.type is defined and spec.type is iterable and spec.type is not string and spec.type is not mapping and spec.type[0] is defined -%}{%- if spec.type | length > 1 -%}{{- spec.type | join(" | ") }}{%- else -%}{{- spec.type[0] }}{%- endif -%}
  {%- elif spec.type == "string" -%}{%- if spec.enum -%}{{- '"' + spec.enum|join('" | "') + '"' -}}{%- else -%}{{- "string" }}{%- if spec.nullable %}{{- " | null" }}{%- endif -%}{%- endif -%}
  {%- elif spec.type in ("number", "integer") -%}{{- "number" }}
  {%- elif spec.type == "object" -%}{%- if spec.properties -%}{{- "{\\n" }}{%- for name, of in spec.properties.items() -%}{{- name }}{%- if name not in (spec.required or []) -%}{{- "?" }}{%- endif -%}{{- ": " }}{{ ts_type(of, spec.required or []) }}{%- if not loop.last -%}{{- ", " }}{%- endif -%}{%- endfor -%}{{- "}" }}{%- else -%}{{- "object" }}{%- endif -%}
  {%- else -%}{{- "any" }}{%- endif -%}
{%- endmacro -%}
{%- macro namespace_of(name, tools) -%}
  {{- "## " + name + "\\n\\n" }}{{- "namespace " + name + " {\\n\\n" }}
  {%- for tool in tools %}{%- set tool = tool.function %}{{- "// " + (tool.description or '') + "\\n" }}{{- "type "+ tool.name + " = " }}{%- if tool.parameters and tool.parameters.properties %}{{- "(_: {\\n" }}{%- for name, of in tool.parameters.properties.items() %}{%- if of.description %}{{- "// " + of.description + "\\n" }}{%- endif %}{{- name }}{%- if name not in (tool.parameters.required or []) %}{{- "?" }}{%- endif %}{{- ": " }}{{- ts_type(of, tool.parameters.required or []) }}{%- if of.default is defined %}{%- if of.enum %}{{- ", // default: " + of.default }}{%- elif of.default is string %}{{- ', // default: "' + of.default + '"' }}{%- else %}{{- ", // default: " + of.default|tojson }}{%- endif %}{%- endif %}{%- if not loop.last %}{{- ",\\n" }}{%- else %}{{- "\\n" }}{%- endif %}{%- endfor %}{{- "}) => any;\\n\\n" }}{%- else %}{{- "() => any;\\n\\n" }}{%- endif %}{%- endfor %}
  {{- "} // namespace " + name }}
{%- endmacro -%}
{{- "<|start|>system<|message|>Current date: " + strftime_now("%Y-%m-%d") + "\\n\\nReasoning: " + (reasoning_effort | default("medium")) + "<|end|>" }}
{%- if messages[0].role in ["developer", "system"] %}{%- set developer = messages[0].content %}{%- set rest = messages[1:] %}{%- else %}{%- set developer = "" %}{%- set rest = messages %}{%- endif %}
{%- if developer or tools %}{{- "<|start|>developer<|message|>" }}{%- if developer %}{{- "# Instructions\\n\\n" }}{{- developer }}{%- endif %}{%- if tools -%}{{- "\\n\\n# Tools\\n\\n" }}{{- namespace_of("functions", tools) }}{%- endif -%}{{- "<|end|>" }}{%- endif %}
{%- set last_call = namespace(name=none) %}
{%- for m in rest -%}
  {%- if m.role == 'assistant' -%}
    {%- if "tool_calls" in m %}{%- set call = m.tool_calls[0] %}{%- if call.function %}{%- set call = call.function %}{%- endif %}{{- "<|start|>assistant to=" }}{{- "functions." + call.name + "<|channel|>commentary json<|message|>" }}{{- call.arguments|tojson }}{{- "<|call|>" }}{%- set last_call.name = call.name %}
    {%- elif loop.last and not add_generation_prompt %}{{- "<|start|>assistant<|channel|>final<|message|>" + m.content + "<|return|>" }}
    {%- else %}{{- "<|start|>assistant<|channel|>final<|message|>" + m.content + "<|end|>" }}{%- set last_call.name = none %}{%- endif %}
  {%- elif m.role == 'tool' -%}{%- if last_call.name is none %}{{- raise_exception("a tool's message without a call") }}{%- endif %}{{- "<|start|>functions." + last_call.name }}{{- " to=assistant<|channel|>commentary<|message|>" + m.content|tojson + "<|end|>" }}
  {%- elif m.role == 'user' -%}{{- "<|start|>user<|message|>" + m.content + "<|end|>" }}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|start|>assistant{%- endif -%}"""
COMMAND_R = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = 'You help.' %}{% endif %}{{ '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>' }}{{ '# Preamble' }}{{ '\\n\\n' + system_message }}
{%- if documents %}{{ '\\n\\n<results>' }}{% for document in documents %}{{ '\\nDocument: ' }}{{ loop.index0 }}
{% for key, value in document.items() %}{{ key }}: {{ value }}
{% endfor %}{% endfor %}{{ '</results>' }}{% endif %}{{ '<|END_OF_TURN_TOKEN|>' }}{% for message in loop_messages %}{% set content = message['content'] %}{% if message['role'] == 'user' %}{{ '<|START_OF_TURN_TOKEN|><|USER_TOKEN|>' + content.strip() + '<|END_OF_TURN_TOKEN|>' }}{% elif message['role'] == 'assistant' %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' + content.strip() + '<|END_OF_TURN_TOKEN|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{% endif %}"""
COMMAND_TOOLS = """{% macro doc_string(props, required) %}{% for name, of in props|items %}
    {{ name }} ({{ of.type if of.type else 'Any' }}{{ '' if name in required else ', optional' }}): {{ of.description | default('') }}
{% endfor %}{% endmacro %}{{ bos_token }}{% for tool in tools or [] %}```python
def {{ tool.function.name }}({% for name, of in tool.function.parameters.properties.items() %}{{ name }}: {{ of.type }}{{ '' if name in (tool.function.parameters.required or []) else ' = None' }}{{ ', ' if not loop.last }}{% endfor %}):
    \"\"\"{{ tool.function.description }}
{{ doc_string(tool.function.parameters.properties, tool.function.parameters.required or []) }}\"\"\"
```{% if not loop.last %}{{ '\\n\\n' }}{% endif %}{% endfor %}{% for m in messages %}<{{ m.role | upper }}>{{ m.content or m.tool_calls | tojson(indent=2) }}{% endfor %}"""
GRANITE = """{%- if messages[0]['role'] == 'system' %}{%- set system_message = messages[0]['content'] %}{%- set loop_messages = messages[1:] %}{%- else %}{%- set system_message = "Knowledge: 2024.\\nToday: " + strftime_now('%B %d, %Y') + "." %}{%- if tools and documents %}{%- set system_message = system_message + " Tools and documents." %}{%- elif tools %}{%- set system_message = system_message + " Tools." %}{%- elif documents %}{%- set system_message = system_message + " Documents." %}{%- endif %}{%- if 'citations' in controls and documents %}{%- set system_message = system_message + ' Cite.' %}{%- endif %}{%- set loop_messages = messages %}{%- endif %}{{- '<|start_of_role|>system<|end_of_role|>' + system_message + '<|end_of_text|>\\n' }}{%- if tools %}{{- '<|start_of_role|>tools<|end_of_role|>' }}{{- tools | tojson(indent=4) }}{{- '<|end_of_text|>\\n' }}{%- endif %}{%- if documents %}{{- '<|start_of_role|>documents<|end_of_role|>' }}{%- for document in documents %}{{- 'Document ' + loop.index0 | string + '\\n' }}{{- document['text'] }}{%- if not loop.last %}{{- '\\n\\n'}}{%- endif%}{%- endfor %}{{- '<|end_of_text|>\\n' }}{%- endif %}{%- for message in loop_messages %}{{- '<|start_of_role|>' + message['role'] + '<|end_of_role|>' + message['content'] + '<|end_of_text|>\\n' }}{%- if loop.last and add_generation_prompt %}{{- '<|start_of_role|>assistant' }}{%- if controls %}{{- ' ' + controls | tojson()}}{%- endif %}{{- '<|end_of_role|>' }}{%- endif %}{%- endfor %}"""

# Plain words.
VICUNA = """{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}{% set system = messages[0]['content'] %}{% else %}{% set rest = messages %}{% set system = 'A chat.' %}{% endif %}{{ system }}{% for m in rest %}{% if m['role'] == 'user' %}{{ ' USER: ' + m['content'].strip() }}{% elif m['role'] == 'assistant' %}{{ ' ASSISTANT: ' + m['content'].strip() + eos_token }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ ' ASSISTANT:' }}{% endif %}"""
ALPACA = """{{ (messages|selectattr('role', 'equalto', 'system')|list|last).content|trim if (messages|selectattr('role', 'equalto', 'system')|list) else '' }}

{% for message in messages %}
{% if message['role'] == 'user' %}
### Instruction:
{{ message['content']|trim -}}
{% if not loop.last %}


{% endif %}
{% elif message['role'] == 'assistant' %}
### Response:
{{ message['content']|trim -}}
{% if not loop.last %}


{% endif %}
{% endif %}
{% endfor %}
{% if add_generation_prompt and messages[-1]['role'] != 'assistant' %}

### Response:
{% endif %}
"""
OPENCHAT = """{{ bos_token }}{% for m in messages %}{{ 'GPT4 Correct ' + m['role'].title() + ': ' + m['content'] + '<|end_of_turn|>'}}{% endfor %}{% if add_generation_prompt %}{{ 'GPT4 Correct Assistant:' }}{% endif %}"""
FALCON = """{% for message in messages %}{% if not loop.first %}{{ '\\n' }}{% endif %}{% if message['role'] == 'system' %}{{ 'System: ' }}{% elif message['role'] == 'user' %}{{ 'User: ' }}{% elif message['role'] == 'assistant' %}{{ 'Falcon: ' }}{% endif %}{{ message['content'].replace('\\r\\n', '\\n').replace('\\n\\n', '\\n') | trim }}{% endfor %}{% if add_generation_prompt %}{{ '\\nFalcon:' }}{% endif %}"""
EXAONE = """{% for m in messages %}{% if loop.first and m['role'] != 'system' %}{{ '[|system|][|endofturn|]\\n' }}{% endif %}{{ '[|' + m['role'] + '|]' + m['content'] }}{% if m['role'] == 'user' %}{{ '\\n' }}{% else %}{{ '[|endofturn|]\\n' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '[|assistant|]' }}{% endif %}"""
INTERNLM = """{{ bos_token }}{% for m in messages %}{% if m.role != 'tool' %}{% set head = '<|im_start|>' ~ m.role %}{{ head }}
{{ m.content }}<|im_end|>
{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"""
STABLELM = """{% for message in messages %}{% if message['role'] in ['user', 'system'] %}{% filter trim %}  {{ message.content }}  {% endfilter %}{% else %}{% set block %}[{{ message.content }}]{% endset %}{{ block | upper }}{% endif %}{{ eos_token if not loop.last else '' }}{% endfor %}"""
LLAVA = """{% for m in messages %}{% if m['role'] != 'system' %}{{ m['role'].upper() + ': ' }}{% endif %}{# images first #}{% for content in m['content'] if content is mapping and content['type'] == 'image' %}{{ '<image>\\n' }}{% endfor %}{% if m['content'] is string %}{{ m['content'] }}{% else %}{% for content in (m['content'] or []) | selectattr('type', 'equalto', 'text') %}{{ content['text'] + ' ' }}{% endfor %}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"""
CALLER = """{% macro turn(role, end='<|end|>') %}<|{{ role }}|>{{ caller(role) }}{{ end }}{{ kwargs.note or '' }}{% endmacro %}{% for m in messages %}{% call(r) turn(m.role, note=loop.index) %}{{ r }}: {{ m.content }}{% endcall %}{% endfor %}"""

FAMILIES = {name.lower(): text for name, text in list(globals().items()) if name.isupper() and isinstance(text, str)}
