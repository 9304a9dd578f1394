#!lua name=NAME

-- Functions of a graph on Redis. KEYS[1] of each call is the mark of one partition: '{tag}w'. All keys of a partition
-- begin with '{tag}', so they lie in one slot:
--   w        its mark: 'SEQUENCE CHANGED', the last change that was applied, and the last that was more than growth
--   r<node>  a row: its first 128 neighbours (32-bit integers, sorted), then its degree if there are more
--   o<node>  the other neighbours of a row of more than 128
--   x<node>  features of a node (32-bit floats), after their columns (32-bit integers) if they are sparse
--   m<page>  id (64-bit integer, -1 for none) and time (64-bit float) of 64 nodes
--   n<page>  ids that are text, by place in the page
--   k<n>     positions by id, in buckets
--   s<page>  nodes that had arrived, edges and removed nodes (64-bit integers) after each of 64 changes
-- Every answer begins with the mark as it was at that moment.

local PAGE, SHORT = 64, 128

local function tag_of(keys)
  return string.sub(keys[1], 1, -2)
end

local function mark_of(keys)
  return redis.call('GET', keys[1]) or '0 0'
end

local function positions_of(blob)
  local found = {}
  for i = 1, #blob / 4 do
    found[i] = struct.unpack('<i4', blob, 4 * i - 3)
  end
  return found
end

-- Every node has its row and its place in pages. Where one lacks, its slot is moving to another server, or the
-- partition has lost changes: the mark says which.
local function lacking(keys)
  return redis.error_reply('OCGLLACKING ' .. string.match(mark_of(keys), '^%d+'))
end

-- Move what a row has too much to its second key. `length` is that of the first key, `added` of it are new.
local function overflow(key, rest, length, added)
  local row = redis.call('GET', key)
  local degree = length / 4
  if length - added > 4 * SHORT then
    degree = struct.unpack('<i4', row, 4 * SHORT + 1) + added / 4
    redis.call('APPEND', rest, string.sub(row, 4 * SHORT + 5))
  else
    redis.call('APPEND', rest, string.sub(row, 4 * SHORT + 1))
  end
  redis.call('SET', key, string.sub(row, 1, 4 * SHORT) .. struct.pack('<i4', degree))
end

-- Apply a change, once: one that was applied is passed by, and one that does not follow is refused.
-- While its slot moves, a call must end before it has written anything: Redis refuses it where a key that is declared
-- is not here. Second keys of rows are not declared, as few rows have one. So two keys that never exist are asked for
-- first: that fails on both sides of a move.
-- KEYS: mark; keys of the operations; rows that get entries; features.
-- ARGV: its sequence number; that of the change before it in this partition; 1 if it is more than growth; operations;
-- how many entries each row gets, as bytes; the entries; how many bytes each feature gets; the features.
local function apply(keys, args)
  local mark = mark_of(keys)
  local have, changed = string.match(mark, '^(%d+) (%d+)$')
  local sequence, before = tonumber(args[1]), tonumber(args[2])
  if tonumber(have) >= sequence then
    return mark
  end
  if tonumber(have) ~= before then
    return redis.error_reply('OCGLBEHIND ' .. have)
  end
  local tag, call, sub, byte = tag_of(keys), redis.call, string.sub, string.byte
  call('EXISTS', tag .. '-', tag .. '--')
  for _, op in ipairs(cmsgpack.unpack(args[4])) do
    local key = keys[tonumber(op[2])]
    if op[1] == 'P' then  -- part of a page, which gets its whole size at once
      if call('EXISTS', key) == 0 then
        call('SETRANGE', key, op[5] - 1, '\0')
      end
      call('SETRANGE', key, op[3], op[4])
    else
      call(op[1], key, unpack(op, 3))
    end
  end
  local counts, entries, sizes, content = args[5], args[6], positions_of(args[7]), args[8]
  local row, at, full = #keys - #sizes - #counts, 1, 4 * SHORT
  for i = 1, #counts do
    local added = 4 * byte(counts, i)
    local length = call('APPEND', keys[row + i], sub(entries, at, at + added - 1))
    at = at + added
    if length > full then
      local key = keys[row + i]
      overflow(key, tag .. 'o' .. sub(key, #tag + 2), length, added)
    end
  end
  row, at = #keys - #sizes, 1
  for i, size in ipairs(sizes) do
    call('SET', keys[row + i], sub(content, at, at + size - 1))
    at = at + size
  end
  mark = args[1] .. ' ' .. (args[3] == '1' and args[1] or changed)
  call('SET', keys[1], mark)
  return mark
end

-- Chosen entries of rows, beyond the first ones. ARGV: positions; how many of each; which.
local function entries(keys, args)
  local tag = tag_of(keys)
  local counts, picks = positions_of(args[2]), positions_of(args[3])
  local found, at = {}, 0
  for i, node in ipairs(positions_of(args[1])) do
    local key = tag .. 'o' .. node
    for j = at + 1, at + counts[i] do
      local place = 4 * (picks[j] - SHORT)
      found[j] = redis.call('GETRANGE', key, place, place + 3)
      if #found[j] < 4 then
        return lacking(keys)
      end
    end
    at = at + counts[i]
  end
  return {mark_of(keys), table.concat(found)}
end

-- Parts of pages, one for each node. ARGV: positions; letter of the pages; bytes of a node; 1 if a page may lack.
local function pages(keys, args)
  local tag, size = tag_of(keys) .. args[2], tonumber(args[3])
  local found = {}
  for i, node in ipairs(positions_of(args[1])) do
    local place = node % PAGE
    found[i] = redis.call('GETRANGE', tag .. (node - place) / PAGE, place * size, place * size + size - 1)
    if #found[i] < size and args[4] ~= '1' then
      return lacking(keys)
    end
  end
  return {mark_of(keys), table.concat(found)}
end

-- Ids that are text. ARGV: positions.
local function names(keys, args)
  local tag = tag_of(keys) .. 'n'
  local found = {mark_of(keys)}
  for i, node in ipairs(positions_of(args[1])) do
    local place = node % PAGE
    found[i + 1] = redis.call('HGET', tag .. (node - place) / PAGE, place)
    if not found[i + 1] then
      return lacking(keys)
    end
  end
  return found
end

-- Positions of ids; -1 for none. A bucket may lack, so all are declared. ARGV: the ids, one for each bucket.
local function find(keys, args)
  local found = {}
  for i, id in ipairs(args) do
    found[i] = struct.pack('<i4', tonumber(redis.call('HGET', keys[i + 1], id) or '-1'))
  end
  return {mark_of(keys), table.concat(found)}
end

-- Degree of a row, and a function that reads an entry of it; nothing where it lacks.
local function row_of(tag, node)
  local key = tag .. 'r' .. node
  local length = redis.call('STRLEN', key)
  if length == 0 and redis.call('EXISTS', key) == 0 then
    return nil
  end
  local degree = length / 4
  if degree > SHORT then
    degree = struct.unpack('<i4', redis.call('GETRANGE', key, 4 * SHORT, 4 * SHORT + 3))
  end
  return degree, function(place)
    local held, at = key, 4 * place
    if place >= SHORT then
      held, at = tag .. 'o' .. node, 4 * (place - SHORT)
    end
    local entry = redis.call('GETRANGE', held, at, at + 3)
    return #entry == 4 and (struct.unpack('<i4', entry)) or nil
  end
end

-- How many entries of a row are below a value, by binary search; the entry there; how many were read. Nothing where
-- the row lacks.
local function below(tag, node, value)
  local degree, entry = row_of(tag, node)
  if not degree then
    return nil
  end
  local low, high, probes = 0, degree, degree > 0 and 1 or 0
  while low < high do
    probes = probes + 1
    local middle = math.floor((low + high) / 2)
    local found = entry(middle)
    if not found then
      return nil
    end
    if found < value then low = middle + 1 else high = middle end
  end
  return low, low < degree and entry(low), probes
end

-- Whether rows have entries, and how many entries were read to find out. ARGV: rows; entries.
local function have(keys, args)
  local tag, wanted, found = tag_of(keys), positions_of(args[2]), {}
  for i, node in ipairs(positions_of(args[1])) do
    local low, entry, probes = below(tag, node, wanted[i])
    if not low then
      return lacking(keys)
    end
    found[i] = struct.pack('<i4i4', entry == wanted[i] and 1 or 0, probes)
  end
  return {mark_of(keys), table.concat(found)}
end

-- Degrees as they were when `arrived` nodes had arrived: rows are sorted and have only grown.
-- ARGV: positions; number of nodes.
local function degrees_at(keys, args)
  local tag, found = tag_of(keys), {}
  for i, node in ipairs(positions_of(args[1])) do
    local low = below(tag, node, tonumber(args[2]))
    if not low then
      return lacking(keys)
    end
    found[i] = struct.pack('<i4', low)
  end
  return {mark_of(keys), table.concat(found)}
end

-- Forget everything of some pages and buckets. ARGV: first and last page; step; first and last bucket; 1 to end.
local function drop(keys, args)
  local tag = tag_of(keys)
  for page = tonumber(args[1]), tonumber(args[2]), tonumber(args[3]) do
    redis.call('UNLINK', tag .. 'm' .. page, tag .. 'n' .. page, tag .. 's' .. page)
    for node = page * PAGE, page * PAGE + PAGE - 1 do
      redis.call('UNLINK', tag .. 'r' .. node, tag .. 'o' .. node, tag .. 'x' .. node)
    end
  end
  for bucket = tonumber(args[4]), tonumber(args[5]) do
    redis.call('UNLINK', tag .. 'k' .. bucket)
  end
  if args[6] == '1' then
    redis.call('UNLINK', keys[1])
  end
  return 'OK'
end

redis.register_function('NAME_apply', apply)
redis.register_function('NAME_drop', drop)

local function reading(name, act)
  redis.register_function{function_name = 'NAME_' .. name, callback = act, flags = {'no-writes'}}
end

reading('entries', entries)
reading('pages', pages)
reading('names', names)
reading('find', find)
reading('have', have)
reading('degrees_at', degrees_at)
