-- Runs one command for many keys, to fill a server quickly.
-- ARGV: the key's prefix, the first and the last number, then the command's words, `?` where the key stands.
local words, at = {}, 0
for i = 4, #ARGV do
  words[i - 3] = ARGV[i]
  if ARGV[i] == '?' then
    at = i - 3
  end
end
for number = tonumber(ARGV[2]), tonumber(ARGV[3]) do
  words[at] = ARGV[1] .. string.format('%012d', number)
  redis.call(unpack(words))
end
return tonumber(ARGV[3])
