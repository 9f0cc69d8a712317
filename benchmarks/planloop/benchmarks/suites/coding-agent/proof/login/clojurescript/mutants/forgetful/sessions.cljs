(ns sessions
  (:require ["crypto" :refer [randomBytes]]))

(def names (atom {}))

(defn begin [name]
  (let [token (.toString (randomBytes 16) "hex")]
    (swap! names assoc token name)
    token))

(defn owner [token]
  (let [name (get @names token)]
    (swap! names dissoc token)
    name))

(defn end [token]
  (swap! names dissoc token))
