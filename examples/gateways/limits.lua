-- Asks Redis with the module whether a request may pass, from nginx' access phase.
--
-- Three ends, kept apart:
--   decided      200 or 429, with the numbers of the reply
--   unavailable  Redis cannot be asked now: the policy of the location says whether it is open or closed (503)
--   fault        Redis answered an error that no waiting mends (ERR, WRONGTYPE, NOPERM, a wrong password): always 503,
--                or whoever can cause one could switch the limit off

local limits = {
    host = "127.0.0.1",       -- or "unix:/run/redis/redis.sock", then without a port
    port = 6379,
    user = nil,               -- of Redis' ACL
    password = nil,
    prefix = "gate:",         -- of every key
    connect_ms = 50,
    answer_ms = 100,          -- for sending and for receiving, each
    pool = 64,                -- idle connections that a worker keeps
    idle_ms = 60000,
    pause_ms = 500,           -- how long a worker leaves Redis alone after it did not answer
}

-- A server that says one of these is there, and will serve again without anybody changing a program or a key.
local passing = {
    LOADING = true, BUSY = true, MASTERDOWN = true, CLUSTERDOWN = true, TRYAGAIN = true, READONLY = true, OOM = true,
    MISCONF = true, NOREPLICAS = true,
}

local types = "https://iana.org/assignments/http-problem-types#"
local unit_ms = { ms = 1, s = 1000, m = 60000, h = 3600000, d = 86400000 }

-- The instant up to which this worker does not ask; 0 while Redis is well.
local rest_until = 0

-- One command as Redis reads it.
local function encode(words)
    local parts = { "*", #words, "\r\n" }
    for _, word in ipairs(words) do
        word = tostring(word)
        parts[#parts + 1] = "$" .. #word .. "\r\n" .. word .. "\r\n"
    end
    return table.concat(parts)
end

-- A reply: a table of integers, or the text of a status. Otherwise nil, what kind of trouble it is, and its words.
local function receive(socket)
    local line, err = socket:receive("*l")
    if not line then return nil, "unavailable", err end
    local kind, rest = line:sub(1, 1), line:sub(2)
    if kind == "+" then return rest end
    if kind == "-" then return nil, passing[rest:match("^%S*")] and "unavailable" or "fault", rest end
    if kind ~= "*" then return nil, "broken", line end
    local numbers = {}
    for index = 1, tonumber(rest) or 0 do
        line, err = socket:receive("*l")
        if not line then return nil, "unavailable", err end
        numbers[index] = tonumber(line:match("^:(-?%d+)$"))
        if not numbers[index] then return nil, "broken", line end
    end
    return numbers
end

-- A connection that is new to Redis has to say who it is.
local function greet(socket)
    if not limits.password then return true end
    local _, err = socket:send(encode({ "AUTH", limits.user or "default", limits.password }))
    if err then return nil, "unavailable", err end
    return receive(socket)
end

-- Asks once. A decision is never repeated: the first may have been charged.
local function exchange(words)
    local socket = ngx.socket.tcp()
    socket:settimeouts(limits.connect_ms, limits.answer_ms, limits.answer_ms)
    local connected, err
    if limits.host:sub(1, 5) == "unix:" then
        connected, err = socket:connect(limits.host)
    else
        connected, err = socket:connect(limits.host, limits.port)
    end
    if not connected then return nil, "unavailable", err end
    local answer, trouble, why = true, nil, nil
    if socket:getreusedtimes() == 0 then answer, trouble, why = greet(socket) end
    if answer then
        answer, err = socket:send(encode(words))
        if not answer then return nil, "unavailable", err end
        answer, trouble, why = receive(socket)
    end
    -- A connection on which an answer is still to come must not be used again: it would be the next caller's answer.
    -- After an error that Redis wrote nothing is left to come, but it may be about the connection itself.
    if answer then socket:setkeepalive(limits.idle_ms, limits.pool) else socket:close() end
    return answer, trouble, why
end

-- The same, unless Redis is being left alone.
local function ask(words)
    local now = ngx.now()
    if rest_until > 0 then
        if now < rest_until then return nil, "unavailable", "it failed a moment ago and is left alone for now" end
        -- This request tries it out, and the others wait for what it finds.
        rest_until = now + limits.pause_ms / 1000
    end
    local answer, trouble, why = exchange(words)
    if trouble == "unavailable" then
        ngx.update_time()
        rest_until = ngx.now() + limits.pause_ms / 1000
    else
        rest_until = 0
    end
    return answer, trouble, why
end

-- Milliseconds to whole seconds, up: whoever waits that long does not come too early.
local function up(ms) return math.ceil(ms / 1000) end

local function milliseconds(period)
    local count, unit = period:match("^(%d+)(%a+)$")
    return tonumber(count) * unit_ms[unit]
end

-- RateLimit-Policy: the quota, and the window if it can be said in whole seconds; for a bucket the time from empty to full.
local function policy(name, rule)
    local algorithm, quota = rule[1], rule[2]
    local window
    if algorithm == "TOKEN" then
        window = up(quota * milliseconds(rule[4]) / rule[3])
    elseif milliseconds(rule[3]) % 1000 == 0 then
        window = milliseconds(rule[3]) / 1000
    end
    return string.format('"%s";q=%d', name, quota) .. (window and ";w=" .. window or "")
end

local function problem(status, title, kind, detail, name, seconds)
    ngx.status = status
    ngx.header["Content-Type"] = "application/problem+json"
    ngx.header["Cache-Control"] = "no-store"
    ngx.header["Retry-After"] = seconds
    ngx.print(string.format('{"type":"%s","title":"%s","status":%d,"detail":"%s","violated-policies":["%s"]}\n',
        kind and types .. kind or "about:blank", title, status, detail, name))
    -- The answer is under way: nothing of nginx' own shall follow.
    return ngx.exit(ngx.HTTP_OK)
end

-- Whose budget it is: a caller that nginx has recognised, else the address, of IPv6 its /64.
function limits.caller(account)
    if account and account ~= "" then return "account:" .. account end
    local bytes = ngx.var.binary_remote_addr
    if #bytes == 16 then
        return "net:" .. bytes:sub(1, 8):gsub(".", function(byte) return string.format("%02x", byte:byte()) end)
    end
    return "address:" .. ngx.var.remote_addr
end

-- limits.check("api", "TOKEN 10 1 1s", "open", caller): lets the request go on, or answers it.
function limits.check(name, text, unavailable, caller)
    local rule = {}
    for word in text:gmatch("%S+") do rule[#rule + 1] = word end
    local words = { "RL." .. rule[1], limits.prefix .. "{" .. caller .. "}:" .. name, unpack(rule, 2) }
    local reply, trouble, why = ask(words)
    ngx.header["RateLimit-Policy"] = policy(name, rule)

    if not reply then
        local open = trouble == "unavailable" and unavailable == "open"
        ngx.log(open and ngx.WARN or ngx.ERR, "limit ", name, ": ", trouble, ": ", why, open and "; let through" or "")
        if open then return end
        return problem(503, "Limits cannot be checked", "temporary-reduced-capacity",
            "The limit of this route cannot be checked at the moment, and it stays shut till then.", name, 1)
    end

    local allowed, quota, left, wait_ms, reset_ms = unpack(reply)
    ngx.header["RateLimit"] = string.format('"%s";r=%d;t=%d', name, left, up(reset_ms))
    ngx.header["X-RateLimit-Limit"] = quota
    ngx.header["X-RateLimit-Remaining"] = left
    ngx.header["X-RateLimit-Reset"] = math.ceil(ngx.now() + reset_ms / 1000)
    if allowed > 0 then return end
    if wait_ms < 0 then
        return problem(403, "Not allowed", nil, "Nothing is allowed here, and no wait helps.", name, nil)
    end
    local seconds = math.max(1, up(wait_ms))
    return problem(429, "Quota exceeded", "quota-exceeded",
        "This request would exceed " .. name .. ". It was not charged. Try again in " .. seconds .. " s.", name, seconds)
end

return limits
