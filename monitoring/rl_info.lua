-- The numbers of INFO rl, for redis_exporter: it runs this script and shows each as redis_script_values{key="rl_..."}.
local found = {}
for name, value in redis.call('INFO', 'rl'):gmatch('(rl_[%w_]+):(%d+)\r?\n') do
    found[#found + 1] = name
    found[#found + 1] = value
end
return found
